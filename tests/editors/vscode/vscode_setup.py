"""The VS Code tools installed by tests/editors/install_vscode.sh, and the build of the extension."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from support.editor_project import without_editor

ROOT = Path(__file__).resolve().parents[3]
EXTENSION = ROOT / "editors/vscode"


@dataclass(frozen=True)
class Installed:
    """A folder with code-server, Node and Playwright, and the path of Chromium."""

    editors: Path
    chromium: str

    @property
    def node(self) -> Path:
        return self.editors / "bin/node"


def installed() -> Installed:
    """Return the installed tools, or skip the test, which fails in CI."""
    editors = Path(os.environ.get("GPUEMU_EDITORS_DIR", ROOT / ".editors"))
    chromium = shutil.which("chromium")
    if not list(editors.glob("vscode-*")) or chromium is None:
        without_editor("code-server and Chromium are not installed (tests/editors/install_vscode.sh)")
    return Installed(editors, chromium)


def build(tools: Installed) -> Path:
    """Check, bundle and package the extension as for a release; return the .vsix."""
    programs = (tools.editors / "bin", tools.editors / "tools/node_modules/.bin")
    environment = {**os.environ, "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]])}
    with (tools.editors / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # xdist workers share the folder
        for command in (
            ["npm", "run", "check"],
            ["npm", "run", "build", "--", "--tests"],
            ["npm", "run", "package"],
        ):
            done = subprocess.run(command, cwd=EXTENSION, env=environment, capture_output=True, text=True, timeout=240)
            assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
    return EXTENSION / "dist/gpuemu.vsix"
