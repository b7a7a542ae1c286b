"""The two processes of a judgement: that of the task, which answers requests, and that of the answer.

Both end with this process. The answer runs under ``gpuemu run`` and has a folder of its own, from which only results
are read.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from gpuemu.judge.answer_text import has_extensions, has_only_triton
from gpuemu.judge.extension_folders import extension_folder
from gpuemu.judge.model import Answer, Call, Case
from gpuemu.judge.raised import Raised
from gpuemu_lsp.engine.runtime.processes.supervised import end_all, run_supervised
from gpuemu_lsp.engine.runtime.python_process import MULTIPROCESSORS_VARIABLE
from gpuemu_lsp.engine.runtime.toolchain.torch_library import installed_torch, serves_triton, torch_toolkit
from gpuemu_lsp.engine.runtime.toolchain.wheels import ProgramBuildError

_END_SECONDS = 15.0
"""What `gpuemu run` may take to end a program and to report, after its own limit."""
_BUILD_SECONDS = 600.0
"""What an answer may take in addition when its extensions are built, which is about a minute for each."""
_MULTIPROCESSORS = "4"
"""Multiprocessors that an answer sees: so few that kernels with a block for each pass over several tiles."""
_NO_RESULT = "`gpuemu run` ended without a result"
_ANSWER_PROCESS = Path(__file__).with_name("answer_start.py")


UNWRITTEN = "api/uninitialized-copy"
"""The rule of a copy to the host of memory that nothing has written, or not all of it."""

_stopped = threading.Event()


class JudgementStoppedError(Exception):
    """A judgement does not go on: see :func:`stopped`."""


class TaskFailedError(Exception):
    """The process of the task has ended, or could not do what it was asked."""


class _TaskServer:
    """The process of :mod:`.task_server`, which this process starts with the first task, and which ends with it."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._control: socket.socket | None = None
        self._errors: IO[bytes] | None = None

    def fork(self, folder: Path, connection: socket.socket) -> None:
        """Fork a process that serves a task at the other end of a connection, which is closed if there is none."""
        with self._lock:
            if self._process is None or self._process.poll() is not None:
                self._start()
            assert self._control is not None
            with contextlib.suppress(OSError):
                socket.send_fds(self._control, [os.fsencode(folder)], [connection.fileno()])

    def errors(self) -> list[str]:
        """Return the lines that the server has written."""
        with self._lock:
            if self._errors is None:
                return []
            self._errors.seek(0)
            return self._errors.read().decode(errors="replace").splitlines()

    def end(self) -> None:
        """End the server and its tasks, which are its process group."""
        with self._lock:
            if self._process is not None and self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()

    def _start(self) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - as long as the server
        # Each message of such a socket is received as it was sent.
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        command = [sys.executable, "-m", "gpuemu.judge.task_server", str(theirs.fileno())]
        # Threads of operators that wait by running take more processor time than the operators of a small task.
        waiting = os.environ.get("OMP_WAIT_POLICY", "passive")
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": "", "OMP_WAIT_POLICY": waiting}
        with theirs:
            # A Ctrl-C is for this process, with which the server ends.
            self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stderr=self._errors,
                pass_fds=[theirs.fileno()],
                env=environment,
                start_new_session=True,
            )


_task_server = _TaskServer()


@contextlib.contextmanager
def stopped() -> Iterator[None]:
    """End the processes of all judgements in threads of this process, and start no other in the body."""
    _stopped.set()
    try:
        end_all()
        _task_server.end()
        yield
    finally:
        _stopped.clear()


class TaskConnection:
    """The process of a task, while a judgement needs it; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._log = folder / "task.log"
        self._socket, theirs = socket.socketpair()
        with theirs:
            _task_server.fork(folder, theirs)
        self._requests = self._socket.makefile("w", encoding="utf-8")
        self._replies = self._socket.makefile("r", encoding="utf-8")

    def __enter__(self) -> TaskConnection:
        return self

    def __exit__(self, *_: object) -> None:
        for file in (self._replies, self._requests, self._socket):
            with contextlib.suppress(OSError):
                file.close()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer to a request.

        Raises
        ------
        TaskFailedError
            If the task cannot be loaded or fails, or its process has ended.
        """
        try:
            print(json.dumps(request), file=self._requests, flush=True)
            line = self._replies.readline()
        except OSError:
            line = ""
        if not line:
            lines = _lines(self._log) or _task_server.errors()
            raise TaskFailedError(lines[-1] if lines else "its process has ended")
        reply: dict[str, Any] = json.loads(line)
        if "problem" in reply:
            raise TaskFailedError(reply["problem"])
        return reply


@dataclass(frozen=True, slots=True)
class AnswerRun:
    """What the process of an answer left: its calls by case, and the findings and launches of ``gpuemu run``.

    ``loaded`` is False if its module failed; ``load_error`` is then the exception, unless the process ended before.
    ``lines`` are those of the answer that were executed; ``handled`` has, by line, the first exception that was being
    handled there. ``torch_work`` is what PyTorch's ``operators`` did in one call, most first, None where
    it was not measured. ``problem`` is why it ended early, None if it did not. ``filled``: new memory was filled with a
    value, as no device of PyTorch knows what was written. ``unfollowed`` is why launches could not be followed, empty
    if they could, and None if the process ended before.
    """

    loaded: bool
    load_error: Raised | None
    calls: Mapping[str, Call]
    findings: tuple[Mapping[str, Any], ...]
    launches: int
    lines: frozenset[int]
    handled: Mapping[int, Raised]
    same_without_launches: bool | None
    torch_work: int | None
    operators: tuple[str, ...]
    problem: str | None
    log: str
    filled: bool
    unfollowed: str | None

    @property
    def errors(self) -> list[Mapping[str, Any]]:
        """The findings that are errors."""
        return [finding for finding in self.findings if finding["severity"] == "error"]

    @property
    def unwritten(self) -> list[Mapping[str, Any]]:
        """The findings on results of which only a part was written."""
        return [
            finding
            for finding in self.findings
            if finding["rule"] == UNWRITTEN and finding["severity"] != "error" and is_of_result(finding)
        ]


def is_of_result(finding: Mapping[str, Any]) -> bool:
    """Return whether a finding is on a copy of a result to the host, which this package makes."""
    return Path(finding["path"]).resolve().parent == Path(__file__).resolve().parent


def run_answer(answer: Answer, cases: Sequence[Case], folder: Path, seconds: float, *, follow: str = "") -> AnswerRun:
    """Call an answer with the inputs of cases, which are in a folder, for at most this long.

    Launches of a call with the inputs that are called ``follow`` are followed, and not made.
    What is built once, PyTorch's device and the extensions of an answer, does not count.

    Raises
    ------
    JudgementStoppedError
        In the body of :func:`stopped`.
    """
    request = {
        "answer": str(answer.path),
        "model": answer.model,
        "imports": str(answer.imports or answer.path.parent),
        "cases": [{"name": case.name, "after": case.after} for case in cases],
        "follow": follow,
        "skip": next((case.name for case in cases if case.decides), ""),
    }
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    events, record, log = folder / "events.jsonl", folder / "run.json", folder / "answer.log"
    for file in (events, record):
        file.unlink(missing_ok=True)
    device = "off" if has_only_triton(answer.all_text) and not serves_triton() else "on"
    if device == "on":
        _build_device()
    problem = None
    try:
        with extension_folder(answer.all_text, folder) as extensions:
            if _stopped.is_set():
                raise JudgementStoppedError
            if has_extensions(answer.all_text) and not any(extensions.rglob("*.so")):
                seconds += _BUILD_SECONDS
            options = ["--format", "json", "--output", str(record), "--timeout", str(math.ceil(seconds))]
            command = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", "run", *options, "--torch-device", device]
            # The words of a shell, so that what the answer prints goes to a file.
            words = ["/bin/sh", "-c", 'exec "$@" >"$0" 2>&1', str(log), *command, str(_ANSWER_PROCESS), str(folder)]
            environment = {"TORCH_EXTENSIONS_DIR": str(extensions), MULTIPROCESSORS_VARIABLE: _MULTIPROCESSORS}
            run_supervised(words, environment=environment, seconds=seconds + _END_SECONDS)
    except subprocess.TimeoutExpired:
        problem = f"stopped after {seconds:g} seconds, the time limit of an answer"
    if _stopped.is_set():
        raise JudgementStoppedError
    entries = [json.loads(line) for line in _lines(events)]
    # What `gpuemu run` has found is in its file whether it came to its end or not.
    result: dict[str, Any] = {"problem": _NO_RESULT}
    if record.exists():
        result = json.loads(record.read_text(encoding="utf-8"))
    failed = next((entry for entry in entries if entry["event"] == "not loaded"), None)
    executed: dict[str, Any] = next((entry for entry in entries if entry["event"] == "lines"), {})
    skipped: dict[str, Any] = next((entry for entry in entries if entry["event"] == "without launches"), {})
    return AnswerRun(
        loaded=any(entry["event"] == "loaded" for entry in entries),
        load_error=Raised(**failed["raised"]) if failed is not None else None,
        calls={entry["call"]["case"]: _call(entry["call"]) for entry in entries if entry["event"] == "call"},
        findings=tuple(result.get("findings", ())),
        launches=int(result.get("launches", 0)),
        lines=frozenset(executed.get("lines", ())),
        handled={int(line): Raised(**raised) for line, raised in executed.get("handled", {}).items()},
        same_without_launches=skipped.get("same"),
        torch_work=skipped.get("torch_work"),
        operators=tuple(skipped.get("operators", ())),
        problem=problem or result.get("problem"),
        log=log.read_text(encoding="utf-8", errors="replace") if log.exists() else "",
        filled=device == "off",
        unfollowed=next((entry["problem"] for entry in entries if entry["event"] == "followed"), None),
    )


def _build_device() -> None:
    """Build PyTorch's device, unless it was before; what prevents that is reported by `gpuemu run`."""
    torch = installed_torch()
    if torch is not None and torch.cuda is None:
        with contextlib.suppress(ProgramBuildError, OSError):
            torch_toolkit(torch)


def _call(record: Mapping[str, Any]) -> Call:
    raised = Raised(**record["raised"]) if "raised" in record else None
    return Call(**{**record, "raised": raised, "changed_inputs": tuple(record.get("changed_inputs", ()))})


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
