"""textDocument/codeLens: result and resource usage above every kernel; the first lens checks it again."""

from __future__ import annotations

import re

from lsprotocol import types

from gpuemu_lsp.engine.source.python.model_pair import answer_name
from gpuemu_lsp.engine.subjects.languages import has_programs
from gpuemu_lsp.server.checks.judgements import Judgements
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.diagnostics.publisher import has_failing_case
from gpuemu_lsp.server.documents.locations import path_from_uri
from gpuemu_lsp.server.features.commands import CHECK, DEBUG, FUZZ, JUDGE, MINIMIZE, REGISTER, RUN, SHOW_ARTIFACT
from gpuemu_lsp.server.handlers import background_request
from gpuemu_lsp.server.kernel_info.summaries import KernelSummary, kernels_of
from gpuemu_lsp.server.services import Services
from gpuemu_lsp.server.session import Session

_MAIN = re.compile(r"^(?:int|auto)\s+main\s*\(", re.MULTILINE)
_SCRIPT = re.compile(r"^if\s+__name__\s*==", re.MULTILINE)


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handler."""
    session = services.session

    @background_request(server, types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    async def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
        uri = params.text_document.uri
        path = path_from_uri(uri)
        if path is None or not session.settings.code_lens:
            return []
        kernels = await kernels_of(session, path)
        lenses = [lens for kernel in kernels for lens in _lenses(session, uri, kernel)]
        judge = _judge_lens(session, services.judgements, uri, path)
        return [*lenses, *_program_lens(session, uri, path, bool(kernels)), *judge]


def _program_lens(session: Session, uri: str, path: str, has_kernels: bool) -> list[types.CodeLens]:
    """Return the lens that runs a program, above `main` of a .cu and above the main part of a script with kernels."""
    is_script = path.endswith(".py")
    may_run = session.settings.trusted and session.has_file(path)
    if not may_run or not (has_programs(path) or (is_script and has_kernels)):
        return []
    text = session.text(path) or ""
    entry_point = (_SCRIPT if is_script else _MAIN).search(text)
    if entry_point is None and not is_script:
        return []
    start = types.Position(text.count("\n", 0, entry_point.start()) if entry_point is not None else 0, 0)
    run = types.Command(title="Run under gpuemu", command=RUN, arguments=[uri])
    return [types.CodeLens(range=types.Range(start, start), command=run)]


def _judge_lens(session: Session, judgements: Judgements, uri: str, path: str) -> list[types.CodeLens]:
    """Return the lens above `class ModelNew` of a .py, with the verdict once the text has one."""
    name = answer_name(session.text(path) or "") if path.endswith(".py") and session.settings.trusted else None
    if name is None:
        return []
    last, start = judgements.last(path), types.Position(name.start.line, 0)
    title = "Judge" if last is None else f"gpuemu: {last.verdict} | Judge again"
    return [types.CodeLens(range=types.Range(start, start), command=types.Command(title, JUDGE, arguments=[uri]))]


def _lenses(session: Session, uri: str, kernel: KernelSummary) -> list[types.CodeLens]:
    # A lens is shown above its line; column 0 is the same in every position encoding.
    line = (kernel.decl.range if kernel.is_function else kernel.decl.name_range).start.line  # above decorators
    start = types.Position(line, 0)
    name = kernel.name if kernel.results else None
    todo = [types.Command(title=_title(session, kernel), command=CHECK, arguments=[uri, *([name] if name else [])])]
    if kernel.unregistered is not None and session.settings.trusted:
        todo.append(types.Command(title="Register kernel", command=REGISTER, arguments=[uri, kernel.unregistered]))
    if name is not None and session.settings.trusted:
        todo.append(types.Command(title="Fuzz", command=FUZZ, arguments=[uri, name]))
    stored = [item for result in kernel.results if result.stored for item in result.findings]
    failing = next(filter(has_failing_case, stored), None)
    if failing is not None:
        arguments = [item for item in (uri, failing.case, name or failing.kernel, failing.dtype) if item is not None]
        todo.append(types.Command(title="Minimize", command=MINIMIZE, arguments=arguments))
        if session.settings.debugger and session.settings.trusted:
            todo.append(types.Command(title="Debug the failing thread", command=DEBUG, arguments=arguments))
    if name is not None and kernel.resources:
        todo.append(types.Command(title="Show PTX", command=SHOW_ARTIFACT, arguments=[uri, name, "ptx"]))
    return [types.CodeLens(range=types.Range(start, start), command=command) for command in todo]


def _title(session: Session, kernel: KernelSummary) -> str:
    parts = [item.text for item in kernel.summaries()] or ["not checked yet"]
    for arch, usage in kernel.resources.items():
        text = f"{usage.registers} registers"
        if usage.spill_stores or usage.spill_loads:
            text += f", {usage.spill_stores + usage.spill_loads} B spilled"
        parts.append(f"{text} ({arch})")
    for result in kernel.results:
        changes = session.history.of(result.request.root, result.report.name).since_save
        parts += [f"since the previous save: {', '.join(changes)}"] if changes else []
    return "gpuemu: " + " | ".join(parts)
