"""Runs the Python blocks of a page of the documentation as they are printed."""

from __future__ import annotations

import re
from pathlib import Path

_DOCS = Path(__file__).resolve().parents[2] / "docs"
_BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)
_FILE = re.compile(r"# (\S+\.(?:py|toml))\n")


def run_guide(page, folder, monkeypatch, *, section="", files=(), given=None):
    """Run the blocks of a page, or of one of its top-level sections, in one namespace, and return that.

    TOML, and Python that begins with the name of a file in a comment, are files of ``folder``, in which the blocks run;
    so are those of the pages ``files``. ``given`` are names that the page takes for granted.
    """
    monkeypatch.chdir(folder)
    namespace = {"__name__": "guide", **(given or {})}
    for other in files:
        for language, text in _BLOCK.findall((_DOCS / other).read_text()):
            _written(folder, language, text)
    text = (_DOCS / page).read_text()
    if section:
        text = re.search(rf"^# {re.escape(section)}\n.*?(?=^# |\Z)", _hidden_comments(text), re.M | re.S)[0]
        text = text.replace("\0", "#")
    ran = 0
    for language, block in _BLOCK.findall(text):
        if _written(folder, language, block) or language != "python":
            continue
        exec(compile(block, f"{page}, block {ran}", "exec"), namespace)  # noqa: S102
        ran += 1
    assert ran, page
    return namespace


def _written(folder, language, text):
    """Write a block that is a file, and return whether it is one."""
    if language == "toml":
        (folder / "gpuemu.toml").write_text('[project]\nname = "guide"\n' + text)
        return True
    named = _FILE.match(text)
    if named is None or language != "python":
        return False
    path = folder / named[1]
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return True


def _hidden_comments(text):
    """Hide the comments of code, which look like headings."""
    return _BLOCK.sub(lambda block: block[0].replace("#", "\0"), text)
