"""textDocument/codeLens: the verdict and the resources above every kernel; a click checks the file again."""

from __future__ import annotations

from lsprotocol import types

from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.documents.uris import path_of
from gpuemu_lsp.server.features.commands import CHECK, FUZZ, MINIMIZE, SHOW_ARTIFACT
from gpuemu_lsp.server.kernel_info.summaries import Kernel, kernels
from gpuemu_lsp.server.session import Session


def register(server: Server, session: Session) -> None:
    """Add the handler."""

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    async def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
        uri = params.text_document.uri
        path = path_of(uri)
        if path is None or not session.settings.code_lens:
            return []
        return [lens for kernel in await kernels(session, path) for lens in _lenses(session, uri, kernel)]


def _lenses(session: Session, uri: str, kernel: Kernel) -> list[types.CodeLens]:
    # A lens is shown above its line; column 0 is the same in every position encoding.
    line = kernel.decl.name_range.start.line
    start = types.Position(line, 0)
    name = kernel.verdicts[0].report.name if kernel.verdicts else None
    todo = [types.Command(title=_title(session, kernel), command=CHECK, arguments=[uri, *([name] if name else [])])]
    if name is not None and session.settings.trusted:
        todo.append(types.Command(title="Fuzz", command=FUZZ, arguments=[uri, name]))
    failing = next((item for verdict in kernel.verdicts for item in verdict.findings if _is_stored(item)), None)
    if failing is not None:
        arguments = [item for item in (uri, failing.case, failing.kernel or name, failing.dtype) if item is not None]
        todo.append(types.Command(title="Minimize", command=MINIMIZE, arguments=arguments))
    if name is not None and kernel.resources:
        todo.append(types.Command(title="Show PTX", command=SHOW_ARTIFACT, arguments=[uri, name, "ptx"]))
    return [types.CodeLens(range=types.Range(start, start), command=command) for command in todo]


def _is_stored(finding: Finding) -> bool:
    return finding.case is not None and finding.severity is Severity.ERROR


def _title(session: Session, kernel: Kernel) -> str:
    parts = [item.words for item in kernel.summaries()] or ["not checked yet"]
    for arch, usage in kernel.resources.items():
        text = f"{usage.registers} registers"
        if usage.spill_stores or usage.spill_loads:
            text += f", {usage.spill_stores + usage.spill_loads} B spilled"
        parts.append(f"{text} ({arch})")
    for verdict in kernel.verdicts:
        since = session.history.of(verdict.request.root, verdict.report.name).save
        parts += [f"since the save before: {', '.join(since)}"] if since else []
    return "gpuemu: " + " | ".join(parts)
