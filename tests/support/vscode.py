"""VS Code in tests: the tools of tests/editors/install_vscode.sh, the build of the extension, and Node scripts that drive it."""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from support.editor_project import without_editor

ROOT = Path(__file__).resolve().parents[2]
EXTENSION = ROOT / "editors/vscode"
SCRIPTS = ROOT / "tests/editors/vscode"


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
    """Check, bundle and package the extension as for a release, once for the same files; return the .vsix."""
    programs = (tools.editors / "bin", tools.editors / "tools/node_modules/.bin")
    environment = {**os.environ, "PATH": os.pathsep.join([*map(str, programs), os.environ["PATH"]])}
    with (tools.editors / "build.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # xdist workers share the folder
        digest, stamp = _digest(), EXTENSION / "dist/test/built-from"
        if stamp.is_file() and stamp.read_text() == digest:
            return EXTENSION / "dist/gpuemu.vsix"
        stamp.unlink(missing_ok=True)
        for command in (
            ["npm", "run", "check"],
            ["npm", "run", "build", "--", "--tests"],
            ["npm", "run", "package"],
        ):
            done = subprocess.run(command, cwd=EXTENSION, env=environment, capture_output=True, text=True, timeout=240)
            assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        stamp.write_text(digest)
    return EXTENSION / "dist/gpuemu.vsix"


def _digest() -> str:
    """Return a digest of the extension's files, without those that are installed or built."""
    digest = hashlib.blake2b(digest_size=8)
    folders = [path for path in EXTENSION.iterdir() if path.name not in ("node_modules", "dist")]
    files = [path for folder in folders for path in (folder, *folder.rglob("*")) if path.is_file()]
    for path in sorted([*files, ROOT / "docs/gpuemu.schema.json"]):
        digest.update(f"{path}\0".encode() + path.read_bytes())
    return digest.hexdigest()


def with_server(environment: dict[str, str]) -> dict[str, str]:
    """Install the server in an environment as pipx does, and return it: VS Code takes PATH from a login shell."""
    program = Path(environment["HOME"], ".local/bin/gpuemu-lsp")
    program.parent.mkdir(parents=True)
    program.symlink_to(Path(sys.executable).parent / "gpuemu-lsp")
    return environment


def run_script(
    tools: Installed, script: Path, tmp_path: Path, environment: dict[str, str], facts: dict[str, Any]
) -> str:
    """Run a Node script with facts in its environment, and return its output."""
    shots = Path(os.environ.get("GPUEMU_SHOTS", tmp_path / "shots"))
    shots.mkdir(parents=True, exist_ok=True)
    scratch = tmp_path / "scratch"
    scratch.mkdir()
    variables = {
        "GPUEMU_EDITORS_DIR": str(tools.editors),
        "GPUEMU_CHROMIUM": tools.chromium,
        "GPUEMU_SHOTS": str(shots),
        "GPUEMU_TEST_FACTS": json.dumps({"scratch": str(scratch), "extension": str(EXTENSION), **facts}),
    }
    command = [str(tools.node), str(script)]
    done = subprocess.run(command, env={**environment, **variables}, capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}\nscreenshots: {shots}"
    return done.stdout


def assert_all_passed(output: str) -> None:
    """Check the output of host.mjs: it names each passed test, and there is one at least."""
    passed = re.search(r"^(\d+) passed$", output, re.MULTILINE)
    assert passed is not None and int(passed[1]) == output.count("\nok: ") + output.startswith("ok: ") > 0
