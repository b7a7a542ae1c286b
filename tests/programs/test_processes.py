"""Programs that fork, exit early, print or allocate much, and runs of which a part is killed: nothing stays behind."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pytest
from support.nvcc import required_nvcc

from gpuemu_lsp.engine.runtime.toolchain.nvcc import run_nvcc
from tests.support.processes import alive, descendants

GPUEMU = (sys.executable, "-m", "gpuemu_lsp.cli.gpuemu")
SOURCE = Path(__file__).with_name("processes.cu")
PATIENCE = 20.0
LIMIT = 2.0
"""Seconds after which nothing may be left, without those in which a process waited for a processor."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    required_nvcc()
    path = tmp_path_factory.mktemp("program") / "processes"
    assert run_nvcc(["-o", str(path), str(SOURCE)]) == 0
    return path


@pytest.mark.parametrize(
    ("what", "status", "said"),
    [
        ("fork-before", 2, "a second process made CUDA calls, which were not carried out"),
        ("fork-after", 2, "a second process made CUDA calls, which were not carried out"),
        ("fork-host", 3, "checked 1 of 1 launch; exit status 3"),
        ("daemon", 0, "1 process that the program left running was ended"),
        ("crash", 134, "the program was ended by signal 6"),
        ("exit", 5, "exit status 5"),
        ("malloc", 4, "exit status 4"),
        ("cudaMalloc", 2, "an allocation of 68,719,476,736 bytes failed: the emulated device has 4 GiB"),
        ("cudaMallocPitch", 2, "exit status 2"),
    ],
)
def test_what_a_program_does_has_its_named_result(program: Path, what: str, status: int, said: str) -> None:
    done = subprocess.run([*GPUEMU, "run", str(program), what], capture_output=True, text=True, check=False)
    assert done.returncode == status, done.stderr
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_a_limit_of_memory_ends_a_launch_that_needs_more(program: Path) -> None:
    limited = [*GPUEMU, "run", "--memory", "500", str(program)]
    done = subprocess.run([*limited, "rows"], capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "error[engine/timeout]" in done.stderr, done.stderr
    assert "rows<<<1, 512>>> was stopped at the limit of memory" in done.stderr
    assert "checked 1 of 2 launches; stopped at the limit of memory: use smaller arguments" in done.stderr
    # Records of accesses to memory that was freed are given back: all together they need twice as much.
    done = subprocess.run([*limited, "freed"], capture_output=True, text=True, check=False)
    assert done.returncode == 0 and "checked 7 of 7 launches" in done.stderr, done.stderr


def stopped_during_a_launch(
    program: Path,
    number: int,
    what: str = "launch",
    environment: Mapping[str, str] = os.environ,
    options: Sequence[str] = (),
) -> tuple[int, str]:
    """Return the exit status and standard error of a run that gets a signal during a launch that spins."""
    command = [*GPUEMU, "run", *options, str(program), what]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment)
    assert process.stdout is not None and process.stdout.readline() == b"ready\n"
    time.sleep(1.0)
    process.send_signal(number)
    error = process.communicate()[1].decode()
    return process.returncode, error


def test_a_signal_names_the_launch_that_was_running(program: Path, tmp_path: Path) -> None:
    status, error = stopped_during_a_launch(program, signal.SIGINT)
    assert status == 2, error
    line = SOURCE.read_text().split("while (*(volatile int*)x")[0].count("\n") + 1
    assert f"processes.cu:{line}:" in error and "spin<<<1, 1>>> was interrupted" in error, error
    assert "checked 1 of 2 launches; interrupted" in error
    file = tmp_path / "result.json"
    status, error = stopped_during_a_launch(
        program, signal.SIGKILL, "found", options=["--format", "json", "--output", str(file)]
    )
    assert status == -signal.SIGKILL and "gpuemu itself was killed, and there is no result" in error
    result = json.loads(file.read_text())
    assert [finding["rule"] for finding in result["findings"]] == ["api/uninitialized-copy"]
    assert result["problem"] == "gpuemu was ended before the program"


def test_an_interrupt_names_the_launch_whose_kernel_is_being_translated(program: Path, tmp_path: Path) -> None:
    environment = {**os.environ, "GPUEMU_CACHE_DIR": str(tmp_path)}
    status, error = stopped_during_a_launch(program, signal.SIGINT, "translate", environment)
    assert status == 2 and "unrolled<<<1, 1>>> was interrupted, and not checked to its end" in error, error
    assert "checked 1 of 2 launches; interrupted" in error


def test_a_launch_of_many_blocks_ends_with_the_run(program: Path) -> None:
    command = [*GPUEMU, "run", "--timeout", "6", str(program), "long"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2 and "error[engine/timeout]" in done.stderr, done.stderr
    assert "many<<<1073741824, 32>>> was stopped at its time limit" in done.stderr


def test_a_program_may_print_a_gigabyte(program: Path) -> None:
    process = subprocess.Popen([*GPUEMU, "run", str(program), "print"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    count = 0
    while chunk := process.stdout.read(1 << 20):
        count += len(chunk)
    assert (count, process.wait()) == (1 << 30, 0), process.stderr.read()


def in_terminal(command: list[str], environment: dict[str, str]) -> tuple[int, int]:
    """Start a command in a terminal of its own; return the process and the other end of the terminal."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.execvpe(command[0], command, environment)
    return pid, terminal


def stalled() -> float:
    """Return the seconds in which a process of this machine waited for a processor (PSI, proc(5)); 0 if not known."""
    with contextlib.suppress(OSError):
        some = Path("/proc/pressure/cpu").read_text().splitlines()[0]
        return int(some.rpartition("total=")[2]) / 1e6
    return 0.0


def wait_for(condition: Callable[[], bool], left: Callable[[], object] = lambda: None) -> None:
    deadline = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < deadline, left()
        time.sleep(0.02)


def state(pid: int) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_text() + Path(f"/proc/{pid}/stat").read_text()
    return ""


def named(pid: int, name: str) -> bool:
    with contextlib.suppress(OSError):
        words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
        return Path(os.fsdecode(words[0])).name == name
    return False


@pytest.mark.parametrize("victim", ["program", "gpuemu", "terminal"])
@pytest.mark.parametrize("phase", ["build", "launch", "blocks", "say", "copy"])
def test_nothing_is_left_when_a_part_is_killed(
    program: Path, tmp_path: Path, phase: str, victim: str, record_property: Callable[[str, object], None]
) -> None:
    target = str(SOURCE) if phase == "build" else str(program)
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    pid, terminal = in_terminal([*GPUEMU, "run", target, phase], {**os.environ, "TMPDIR": str(temporary)})
    try:
        running = "nvcc" if phase == "build" else "processes"
        wait_for(lambda: any(named(one, running) for one in descendants(pid)))
        if phase != "build":
            written = b""
            while b"ready" not in written:
                written += os.read(terminal, 1 << 16)
        everything = descendants(pid)
        started, stalled_before = time.monotonic(), stalled()
        if victim == "gpuemu":
            os.kill(pid, signal.SIGKILL)
        elif victim == "program":
            os.kill(next(one for one in everything if named(one, running)), signal.SIGKILL)
        else:
            os.close(terminal)
        os.waitpid(pid, 0)
        wait_for(lambda: not alive(everything - {pid}), lambda: [state(one) for one in everything - {pid}])
        wait_for(lambda: not list(temporary.iterdir()))
        took, waited = time.monotonic() - started, stalled() - stalled_before
        record_property("seconds", took)
        assert took - waited <= LIMIT, f"took {took:.2f} s; in {waited:.2f} s of these a process waited for a processor"
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        if victim != "terminal":
            os.close(terminal)


def test_a_program_ends_when_what_its_kernels_print_is_not_read(program: Path) -> None:
    words = [*GPUEMU, "run", str(program), "say"]
    with subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as run:
        assert run.stdout is not None and run.stderr is not None
        run.stdout.readline()
        run.stdout.close()
        errors = run.stderr.read()  # to its end, long before the time limit of ten minutes
    assert b"stopped: what its kernels print cannot be written: Broken pipe" in errors
    assert run.returncode == 2
