"""What a release and a commit must look like: versions, the changelog, fragments, and the hook for messages."""

from __future__ import annotations

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from gpuemu_lsp import __version__

ROOT = Path(__file__).resolve().parents[2]
HOOK = ROOT / ".githooks/commit-msg"
BULLETS = 30
"""A version's changes for users that a reader takes in; everything else is git's."""


def test_the_version_is_the_same_everywhere():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    extension = json.loads((ROOT / "editors/vscode/package.json").read_text("utf-8"))["version"]
    newest = re.search(r"^## (\S+) - \d{4}-\d\d-\d\d$", (ROOT / "CHANGELOG.md").read_text("utf-8"), re.MULTILINE)
    assert {project, extension, newest[1]} == {__version__}


def test_a_version_has_few_changes_and_each_is_one_line():
    versions = (ROOT / "CHANGELOG.md").read_text("utf-8").split("\n## ")[1:]
    newest = versions[0].splitlines()
    assert sum(line.startswith("- ") for line in newest) <= BULLETS
    assert not [line for line in newest[1:] if line and not line.startswith(("- ", "### "))]


def test_fragments_are_short_and_have_a_kind():
    for fragment in (ROOT / "changelog.d").iterdir():
        if fragment.name != "template.jinja":
            assert re.fullmatch(r"[\w-]+\.(added|changed|fixed)\.md", fragment.name)
            assert len(fragment.read_text("utf-8").split()) <= 40, fragment.name


def hook(tmp_path: Path, message: str) -> str:
    """Run the hook as git does, and return what it says: nothing where it accepts the message."""
    file = tmp_path / "COMMIT_EDITMSG"
    file.write_text(message, "utf-8")
    done = subprocess.run([HOOK, file], capture_output=True, text=True, check=False)
    assert bool(done.returncode) == bool(done.stderr)
    return done.stderr


GOOD = (
    "emulator/analysis: fold block_ending_at() into block_of()",
    "docs: build a site\n\nWith links to every rule.\n# a comment of git\n",
    "oracle: pass the dtype on",
    "plan/host: proceed past an unknown flag",
    "Merge branch 'main'",
    'Revert "docs: build a site"',
)
BAD = {
    "Blocks of instructions and terminators: one method": "not `area[/sub]: imperative`",
    "fix things": "not `area[/sub]: imperative`",
    "docs: Build a site": "not `area[/sub]: imperative`",
    "docs: builds a site": "not an imperative",
    "docs: added a site": "not an imperative",
    "docs: adding a site": "not an imperative",
    "docs: build a site.": "ends with a period",
    "docs: build a site\nwith links": "is not empty",
    "docs: build a site with a navigation for users first, then for contributors": "columns",
    "": "not `area[/sub]: imperative`",
}


def test_the_hook_accepts_good_messages(tmp_path):
    assert {message: hook(tmp_path, message) for message in GOOD} == dict.fromkeys(GOOD, "")


def test_the_hook_says_what_is_wrong_with_a_message(tmp_path):
    said = {message: hook(tmp_path, message) for message in BAD}
    assert not [message for message, reason in BAD.items() if reason not in said[message]], said


def test_git_runs_the_hook(tmp_path):
    def git(*arguments: str) -> int:
        settings = ("-c", "user.name=n", "-c", "user.email=n@example.org", "-c", f"core.hooksPath={HOOK.parent}")
        return subprocess.run(["git", *settings, *arguments], cwd=tmp_path, capture_output=True, check=False).returncode

    if git("init", "--quiet"):
        pytest.skip("git is not installed")
    assert git("commit", "--allow-empty", "-m", "Added: things") != 0
    assert git("commit", "--allow-empty", "-m", "docs: add things") == 0
