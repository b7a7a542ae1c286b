"""The skill for coding agents: ``SKILL.md``, and its installation."""

from __future__ import annotations

from pathlib import Path

NAME = "gpuemu"
FILE = "SKILL.md"
_HEAD = f"---\nname: {NAME}\n"


class SkillError(Exception):
    """The skill was not installed; the message says why."""


def skill_text() -> str:
    """Return the text of the skill."""
    return (Path(__file__).parent / FILE).read_text("utf-8")


def install(folder: Path) -> Path:
    """Write the skill to ``gpuemu/SKILL.md`` in a folder of skills, in place of an older version; return the file.

    Raises
    ------
    SkillError
        If the file cannot be written, or is not this skill.
    """
    path = folder / NAME / FILE
    try:
        if path.exists() and not path.read_text("utf-8", errors="replace").startswith(_HEAD):
            raise SkillError(f"{path} is another skill; name another folder with --to")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(skill_text(), encoding="utf-8")
    except OSError as error:
        raise SkillError(f"{error.filename}: {error.strerror or error}") from error
    return path
