"""The two processes of a judgement: that of the task, which answers requests, and that of the answer.

Both end with this process. The answer runs under ``gpuemu run`` and has a folder of its own, from which only results
are read.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuemu.judge.answer_text import needs_torch_device
from gpuemu.judge.extension_folders import extension_folder
from gpuemu.judge.model import Answer, Call, Case
from gpuemu_lsp.engine.runtime.processes.supervised import run_supervised

_END_SECONDS = 15.0
"""What `gpuemu run` may take to end a program and to report, after its own limit."""
_ANSWER_PROCESS = Path(__file__).with_name("answer_process.py")


class TaskFailedError(Exception):
    """The process of the task has ended, or could not do what it was asked."""


class TaskConnection:
    """The process of a task, while a judgement needs it; a context manager."""

    def __init__(self, folder: Path) -> None:
        self._errors = (folder / "task.log").open("w+", encoding="utf-8")
        command = [sys.executable, "-m", "gpuemu.judge.task_process", str(folder)]
        environment = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, env=environment
        )

    def __enter__(self) -> TaskConnection:
        return self

    def __exit__(self, *_: object) -> None:
        with contextlib.suppress(OSError):
            self._process.stdin.close()  # type: ignore[union-attr]
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()  # type: ignore[union-attr]
        self._errors.close()

    def ask(self, **request: Any) -> dict[str, Any]:
        """Return the answer to a request.

        Raises
        ------
        TaskFailedError
            If the task cannot be loaded or fails, or its process has ended.
        """
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except OSError:
            line = ""
        if not line:
            self._errors.seek(0)
            lines = self._errors.read().strip().splitlines()
            raise TaskFailedError(lines[-1] if lines else "its process has ended")
        reply: dict[str, Any] = json.loads(line)
        if "problem" in reply:
            raise TaskFailedError(reply["problem"])
        return reply


@dataclass(frozen=True, slots=True)
class AnswerRun:
    """What the process of an answer left: its calls by case, and the findings and launches of ``gpuemu run``.

    ``loaded`` is False if its module failed; ``load_error`` is then the exception and its text, unless the process
    ended before. ``lines`` are those of the answer that were executed. ``problem`` is why it ended early, None if it
    did not. ``filled``: new memory was filled with a value, as no device of PyTorch knows what was written.
    """

    loaded: bool
    load_error: tuple[str, str] | None
    calls: Mapping[str, Call]
    findings: tuple[Mapping[str, Any], ...]
    launches: int
    lines: frozenset[int]
    same_without_launches: bool | None
    problem: str | None
    log: str
    filled: bool

    @property
    def errors(self) -> list[Mapping[str, Any]]:
        """The findings that are errors."""
        return [finding for finding in self.findings if finding["severity"] == "error"]


def run_answer(answer: Answer, cases: Sequence[Case], folder: Path, seconds: float) -> AnswerRun:
    """Call an answer with the inputs of cases, which are in a folder, for at most this long."""
    request = {
        "answer": str(answer.path),
        "model": answer.model,
        "cases": [{"name": case.name, "after": case.after} for case in cases],
        "skip": next((case.name for case in cases if case.decides), ""),
    }
    (folder / "request.json").write_text(json.dumps(request), encoding="utf-8")
    events, record, log = folder / "events.jsonl", folder / "run.json", folder / "answer.log"
    for file in (events, record):
        file.unlink(missing_ok=True)
    options = ["--format", "json", "--output", str(record), "--timeout", str(math.ceil(seconds))]
    device = "on" if needs_torch_device(answer.all_text) else "off"
    command = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", "run", *options, "--torch-device", device]
    problem = None
    # The words of a shell, so that what the answer prints goes to a file.
    words = ["/bin/sh", "-c", 'exec "$@" >"$0" 2>&1', str(log), *command, str(_ANSWER_PROCESS), str(folder)]
    try:
        with extension_folder(answer.all_text, folder) as extensions:
            environment = {"TORCH_EXTENSIONS_DIR": str(extensions)}
            run_supervised(words, environment=environment, seconds=seconds + _END_SECONDS)
    except subprocess.TimeoutExpired:
        problem = f"stopped after {seconds:g} seconds, the time limit of an answer"
    entries = [json.loads(line) for line in _lines(events)]
    result = json.loads(record.read_text(encoding="utf-8")) if record.exists() else {}
    failed = next((entry for entry in entries if entry["event"] == "not loaded"), None)
    return AnswerRun(
        loaded=any(entry["event"] == "loaded" for entry in entries),
        load_error=(failed["error"], failed["message"]) if failed is not None else None,
        calls={entry["call"]["case"]: _call(entry["call"]) for entry in entries if entry["event"] == "call"},
        findings=tuple(result.get("findings", ())),
        launches=int(result.get("launches", 0)),
        lines=frozenset(next((entry["lines"] for entry in entries if entry["event"] == "lines"), ())),
        same_without_launches=next((entry["same"] for entry in entries if entry["event"] == "without launches"), None),
        problem=problem or result.get("problem"),
        log=log.read_text(encoding="utf-8", errors="replace") if log.exists() else "",
        filled=device == "off",
    )


def _call(record: Mapping[str, Any]) -> Call:
    lists = {name: tuple(record[name]) for name in ("changed_inputs", "operators") if name in record}
    return Call(**{**record, **lists})


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []
