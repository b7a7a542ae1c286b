"""``kernels``, ``ptx`` and ``register``: what a file holds, its code, and its entries of gpuemu.toml."""

from __future__ import annotations

from pathlib import Path

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.crash_findings import ending_finding
from gpuemu_lsp.engine.jobs.new_entries import RegistrationError, unregistered_kernel, write_entry
from gpuemu_lsp.engine.jobs.run_one import run_job
from gpuemu_lsp.engine.report.model import relative
from gpuemu_lsp.engine.subjects.request import CheckOptions
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.engine.workers.wire import to_json
from gpuemu_lsp.mcp.call import Tool, ToolCall, ToolError
from gpuemu_lsp.mcp.schemas import array, boolean, integer, nullable, record, text
from gpuemu_lsp.mcp.targets import WHAT, given, one_request, targets_of

_SECONDS = 60.0


# ---- kernels ---------------------------------------------------------------------------------------------------------


def _kernels(call: ToolCall) -> dict[str, Json]:
    targets = targets_of(call.session, given(call.session, call.arguments), CheckOptions())
    rows: list[Json] = []
    for request in targets.requests:
        spec, place = request.spec, request.spec.places.get("name") or request.spec.places.get("")
        line = place.range.start.line + 1 if place is not None and place.path == spec.source else None
        rows.append(
            {
                "kernel": spec.name,
                "file": relative(spec.source, targets.root),
                "line": line,
                "registered": request.registered,
                "reference": None if spec.reference is None else relative(spec.reference, targets.root),
                "dtypes": list(spec.dtypes or ()),
                "architectures": list(spec.arch),
            }
        )
    return {"kernels": rows, "problems": [finding.message for finding in targets.findings]}


KERNELS = Tool(
    name="kernels",
    title="List kernels",
    description="List the kernels of a file or folder, and which of them gpuemu.toml registers with a reference.",
    arguments=record({name: WHAT[name] for name in ("path", "source", "name", "files")}, ()),
    result=record(
        {
            "kernels": array(
                record(
                    {
                        "kernel": text(),
                        "file": text(),
                        "line": nullable(integer("from 1", minimum=1)),
                        "registered": boolean("gpuemu.toml has an entry for it"),
                        "reference": nullable(text()),
                        "dtypes": array(text()),
                        "architectures": array(text()),
                    }
                )
            ),
            "problems": array(text(), "of gpuemu.toml, and files without kernels"),
        }
    ),
    run=_kernels,
)


# ---- ptx -------------------------------------------------------------------------------------------------------------


def _ptx(call: ToolCall) -> dict[str, Json]:
    arch, line = call.arguments.get("arch"), call.arguments.get("line")
    what = given(call.session, call.arguments)
    request = one_request(call.session, what, CheckOptions(), call.arguments.get("kernel"))
    payload: dict[str, Json] = {"request": to_json(request), "form": call.arguments.get("form", "ptx"), "arch": arch}
    result = run_job(call, Job("disassemble", payload, wall_seconds=_SECONDS, taint=request.user_code))
    code = next(result.named("artifact"), None)
    if not isinstance(code, dict):
        problem = next(result.named("trouble"), None)
        raise ToolError(str(problem) if problem is not None else ending_finding(request, result.ending).message)
    spans, lines = code["map"], str(code["text"]).splitlines()
    assert isinstance(spans, list)
    numbers: list[tuple[int, int | None]] = [(number, None) for number in range(len(lines))]
    if isinstance(line, int):
        chosen = [span for span in spans if isinstance(span, dict) and span["line"] == line - 1]
        numbers = [(number, line) for span in chosen for number in _range(span)]
        if not numbers:
            having = sorted({int(span["line"]) + 1 for span in spans if isinstance(span, dict)})  # type: ignore[arg-type]
            raise ToolError(f"Line {line} has no instructions of its own; these have: {', '.join(map(str, having))}.")
    rows: list[Json] = [{"number": number + 1, "text": lines[number]} for number, _ in numbers if number < len(lines)]
    return {"kernel": request.spec.name, "arch": code["arch"], "lines": rows}


def _range(span: dict[str, Json]) -> range:
    first, last = span["first"], span["last"]
    assert isinstance(first, int) and isinstance(last, int)
    return range(first, last + 1)


PTX = Tool(
    name="ptx",
    title="Code of a kernel",
    description="Return the PTX or the machine code (SASS) of a kernel, or of one line of its source.",
    arguments=record(
        {
            **WHAT,
            "line": integer("only what this line of the source became, from 1", minimum=1),
            "form": text("(default: ptx)", choices=("ptx", "sass", "ttir", "ttgir")),
            "arch": text("architecture, for example sm_90"),
        },
        (),
    ),
    result=record(
        {
            "kernel": text(),
            "arch": text(),
            "lines": array(record({"number": integer("in the code, from 1", minimum=1), "text": text()})),
        }
    ),
    run=_ptx,
)


# ---- register --------------------------------------------------------------------------------------------------------


def _register(call: ToolCall) -> dict[str, Json]:
    try:
        request = unregistered_kernel(f"{call.arguments['path']}:{call.arguments['kernel']}", Path.cwd())
        entry = write_entry(call, request, Path.cwd(), recorded=call.arguments.get("recorded") is True)
    except RegistrationError as error:
        reason = f"Nothing was written: {call.reason}." if call.reason else str(error)
        raise ToolError(reason) from error
    return {
        "kernel": entry.kernel,
        "config": entry.config,
        "reference": entry.reference,
        "questions": list(entry.questions),
        "next": "The reference is a template that returns zeros: check compares with it, so its formula is to be "
        "written, and a person is to confirm it. Answer the questions in [kernels.args] of the entry.",
    }


REGISTER = Tool(
    name="register",
    title="Register a kernel",
    description=(
        "Write the entry of an unregistered kernel to gpuemu.toml, with the sizes, arguments and launch that the "
        "program or probing launches show, and a template of its reference. Changes files of the project."
    ),
    arguments=record(
        {
            "path": text("the file of the kernel, relative to the server's working folder"),
            "kernel": text(),
            "recorded": boolean("take sizes and launch from the launches that gpuemu run --record has recorded"),
        },
        ("path", "kernel"),
    ),
    result=record(
        {
            "kernel": text("its name in gpuemu.toml"),
            "config": text(),
            "reference": text("file of the template"),
            "questions": array(text(), "one for each value that was not found"),
            "next": text(),
        }
    ),
    run=_register,
    writes=True,
)
