"""The warm process of a project: the same output, one user, one project, and what happens when a part of it dies."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from support.processes import alive, busy, descendants, workers
from support.server_kernels import GOOD, SPIN, WRONG, write

from gpuemu_lsp.cli.daemon.address import decode, encode, identity, project_folder

COMMAND = [sys.executable, "-m", "gpuemu_lsp"]
PATIENCE = 60.0


class Project:
    """A project with one kernel, whose daemon has a socket folder of its own."""

    def __init__(self, root: Path, sockets: Path) -> None:
        self.root, self.sockets = root, sockets
        self.environment = {**os.environ, "XDG_RUNTIME_DIR": str(sockets)}
        write(root, GOOD)

    def check(self, *arguments: str, daemon: bool = True) -> subprocess.CompletedProcess[str]:
        return subprocess.run(**self.command(*arguments, daemon=daemon), capture_output=True, timeout=PATIENCE)

    def begin(self, *arguments: str) -> subprocess.Popen[str]:
        pipe = subprocess.PIPE
        return subprocess.Popen(**self.command(*arguments, daemon=True), stdout=pipe, stderr=pipe)

    def command(self, *arguments: str, daemon: bool) -> dict:
        flag = ["--daemon"] if daemon else []
        words = [*COMMAND, "--check", *arguments, *flag]
        return {"args": words, "cwd": self.root, "env": self.environment, "text": True}

    def daemons(self) -> list[int]:
        command = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", "daemon", "status"]
        listed = subprocess.run(command, env=self.environment, capture_output=True, text=True, check=True)
        return [int(line.split()[0]) for line in listed.stdout.splitlines()[:-1]]

    @property
    def daemon(self) -> int:
        (process,) = self.daemons()
        return process


def until(holds: Callable[[], bool]) -> None:
    ends = time.monotonic() + PATIENCE
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


@pytest.fixture
def project(tmp_path: Path) -> Iterator[Project]:
    root = tmp_path / "project"
    root.mkdir()
    project = Project(root, tmp_path)
    yield project
    for process in project.daemons():
        every = descendants(process)
        os.kill(process, signal.SIGTERM)
        until(lambda: not alive(every))  # noqa: B023


def comparable(result: subprocess.CompletedProcess[str]) -> tuple[int, str, str]:
    return result.returncode, re.sub(r"[\d.]+ (ms|s)\b", "T", result.stdout), result.stderr


def test_output_and_exit_code_are_those_of_the_command(project: Project):
    for arguments, code in ((["scale.cu"], 0), (["--jobs", "0"], 2), (["--hints"], 1)):
        if code == 1:
            write(project.root, WRONG)
        warm, cold = project.check(*arguments), project.check(*arguments, daemon=False)
        assert comparable(warm) == comparable(cold) and warm.returncode == code
    first = project.daemon
    other = {**project.environment, "GPUEMU_ANYTHING": "1"}
    subprocess.run(**{**project.command("scale.cu", daemon=True), "env": other}, capture_output=True)
    assert first in project.daemons() and len(project.daemons()) == 2
    assert (project.sockets / f"gpuemu-daemon-{os.getuid()}").stat().st_mode & 0o777 == 0o700


def test_killed_workers_clients_and_daemons(project: Project):
    assert project.check("scale.cu").returncode == 0
    daemon = project.daemon
    for process in workers(daemon):
        os.kill(process, signal.SIGKILL)
    assert project.check("scale.cu").returncode == 0 and project.daemon == daemon

    write(project.root, SPIN)
    client = project.begin("scale.cu")
    until(lambda: bool(busy(daemon)))
    write(project.root, GOOD)
    second = project.check("scale.cu")  # runs in a process of its own
    assert second.returncode == 0
    client.kill()
    client.communicate()
    until(lambda: not busy(daemon))
    again = project.check("scale.cu")
    assert again.returncode == 0 and project.daemon == daemon

    write(project.root, SPIN)
    client = project.begin("scale.cu")
    until(lambda: bool(busy(daemon)))
    every = descendants(daemon)
    os.kill(daemon, signal.SIGKILL)
    output, errors = client.communicate(timeout=PATIENCE)
    assert client.returncode == 3 and output == "" and "the daemon ended during the check" in errors
    until(lambda: not alive(every))
    write(project.root, GOOD)
    assert project.check("scale.cu").returncode == 0 and project.daemon != daemon


def test_it_ends_with_its_project(project: Project):
    assert project.check("scale.cu").returncode == 0
    daemon = project.daemon
    every = descendants(daemon)
    shutil.rmtree(project.root)
    until(lambda: not alive(every))
    assert project.daemons() == []


def test_a_folder_that_others_can_open_is_not_used(project: Project):
    folder = project.sockets / f"gpuemu-daemon-{os.getuid()}"
    folder.mkdir(mode=0o755)
    result = project.check("scale.cu")
    assert result.returncode == 0 and "only this user can open" in result.stderr
    assert list(folder.iterdir()) == []
    folder.rmdir()


def test_a_client_imports_nothing_of_the_engine():
    code = "import sys; import gpuemu_lsp.cli.start, gpuemu_lsp.cli.daemon.client; print(*sys.modules)"
    modules = subprocess.run(
        [sys.executable, "-I", "-S", "-c", f"import sys; sys.path.append({str(Path.cwd())!r}); {code}"],
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split()
    assert "gpuemu_lsp.cli.daemon.address" in modules
    heavy = {"dataclasses", "json", "argparse", "subprocess", "pathlib", "typing", "re"}
    assert not heavy & set(modules) and not [name for name in modules if name.startswith("gpuemu_lsp.engine")]


def test_what_clients_of_a_daemon_have_in_common(tmp_path: Path):
    (tmp_path / "gpuemu.toml").touch()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    assert project_folder(str(tmp_path / "deep" / "er")) == str(tmp_path)
    common = identity("/project", {"GPUEMU_CACHE_DIR": "/c", "TERM": "xterm"})
    assert common == identity("/project", {"TERM": "dumb", "GPUEMU_CACHE_DIR": "/c", "PWD": "/"})
    assert common != identity("/project", {"GPUEMU_CACHE_DIR": "/d", "TERM": "xterm"})
    assert common != identity("/other", {"GPUEMU_CACHE_DIR": "/c", "TERM": "xterm"})


def test_messages_carry_any_argument():
    lists = [["common\nof all", ""], [], ["--check", "a b", "\udce9"], ["NAME=a=b"]]
    message = encode(*lists)
    assert int.from_bytes(message[:4], "big") == len(message) - 4 and decode(message[4:]) == lists
