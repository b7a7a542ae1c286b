"""``judge``: an answer to a benchmark of PyTorch kernels, in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.child_command import ChildCommand
from gpuemu_lsp.engine.report.json_format import findings_of_document
from gpuemu_lsp.mcp.call import Tool, ToolCall, ToolError
from gpuemu_lsp.mcp.records import FINDING, Lines, finding_facts
from gpuemu_lsp.mcp.schemas import array, integer, nullable, number, record, text
from gpuemu_lsp.mcp.targets import sha256
from gpuemu_lsp.mcp.tools.check import MOST_SECONDS

_BUDGET = 300
_ANSWER, _TASK = "answer.py", "task.py"


def _judge(call: ToolCall) -> dict[str, Json]:
    budget = call.arguments.get("budget", _BUDGET)
    assert isinstance(budget, int | float)
    answer, task = _files(call)
    child = ChildCommand()
    with call.session.workspace.result_file() as output:
        # The limit is for each group of sizes.
        words = [
            "judge",
            "--format",
            "json",
            "--output",
            str(output),
            "--timeout",
            str(max(1, int(budget))),
            str(answer),
        ]
        if task is not None:
            words += ["--reference", str(task)]
        with call.budget(budget), call.ending_with_call(child):
            call.report(0, None, f"judges {answer.name}")
            said = child.run(words, Path.cwd())
        report = json.loads(output.read_text("utf-8")) if output.exists() and not call.reason else None
    if report is None:
        lines = said.splitlines()
        reason = call.reason or (lines[-1].removeprefix("gpuemu: ") if lines else "gpuemu judge ended without a result")
        raise ToolError(f"Not judged: {reason}.")
    return {"rows": [_row(row) for row in report["rows"]]}


def _files(call: ToolCall) -> tuple[Path, Path | None]:
    """Return the files of the answer and of the task, which is None where it is found from the answer."""
    path, source = call.arguments.get("answer"), call.arguments.get("answer_source")
    task, task_source = call.arguments.get("task"), call.arguments.get("task_source")
    if (path is None) == (source is None):
        raise ToolError("Give one of answer and answer_source.")
    if task is not None and task_source is not None:
        raise ToolError("Give one of task and task_source.")
    texts = {_ANSWER: source, _TASK: task_source}
    texts = {name: item for name, item in texts.items() if isinstance(item, str)}
    folder = call.session.workspace.with_files({name: str(item) for name, item in texts.items()}) if texts else Path()
    answer = Path.cwd() / path if isinstance(path, str) else folder / _ANSWER
    if not answer.exists():
        raise ToolError(f"There is no file {answer}.")
    if task_source is not None:
        return answer, folder / _TASK
    return answer, Path.cwd() / task if isinstance(task, str) else None


def _row(row: Mapping[str, Any]) -> Json:
    lines = Lines()
    root = str(Path(row["answer"]).parent)
    return {
        "name": row["name"],
        "verdict": row["verdict"],
        "reason": row["reason"],
        "notes": list(row["notes"]),
        "launches": row["launches"],
        "seconds": row["seconds"],
        "sources": [
            {"file": str(path), "sha256": sha256(str(path))} for path in dict.fromkeys((row["answer"], row["task"]))
        ],
        "findings": [finding_facts(finding, root, lines) for finding in findings_of_document(row, root)],
    }


JUDGE = Tool(
    name="judge",
    title="Judge a kernel against its PyTorch task",
    description=(
        "Judge an answer to a benchmark of kernels (class ModelNew) against the PyTorch code that it replaces (class "
        "Model): same, differs, unsafe, hack, does not build, or not judged. Only same is a pass. The answer sees "
        "neither the reference nor the tolerances."
    ),
    arguments=record(
        {
            "answer": text("a file, or a folder of answers"),
            "answer_source": text("in place of answer: its text"),
            "task": text("the file with Model, or the folder of a benchmark's tasks; default: found from the answer"),
            "task_source": text("in place of task: its text"),
            "budget": number(f"seconds until the result (default: {_BUDGET})", minimum=1, maximum=MOST_SECONDS),
        },
        (),
    ),
    result=record(
        {
            "rows": array(
                record(
                    {
                        "name": text(),
                        "verdict": text(choices=("same", "differs", "unsafe", "hack", "does not build", "not judged")),
                        "reason": text(),
                        "notes": array(text()),
                        "launches": nullable(integer(minimum=0)),
                        "seconds": number(minimum=0),
                        "sources": array(record({"file": text(), "sha256": nullable(text())})),
                        "findings": array(FINDING),
                    }
                )
            ),
        }
    ),
    run=_judge,
)
