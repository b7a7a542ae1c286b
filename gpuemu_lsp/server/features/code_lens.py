"""textDocument/codeLens: the verdict and the resources above every kernel; a click checks the file again."""

from __future__ import annotations

from lsprotocol import types

from gpuemu_lsp.server.features.commands import CHECK
from gpuemu_lsp.server.kernels import Kernel, kernels
from gpuemu_lsp.server.paths import path_of
from gpuemu_lsp.server.protocol import Server
from gpuemu_lsp.server.session import Session


class Refresher:
    """Asks the client to fetch the lenses again, where it can be asked."""

    def __init__(self, server: Server) -> None:
        self.supported = False
        self._server = server

    def refresh(self) -> None:
        """Ask; the client may answer whenever it likes."""
        if self.supported:
            self._server.workspace_code_lens_refresh(None)


def register(server: Server, session: Session) -> None:
    """Add the handler."""

    @server.feature(types.TEXT_DOCUMENT_CODE_LENS, types.CodeLensOptions(resolve_provider=False))
    def code_lens(params: types.CodeLensParams) -> list[types.CodeLens]:
        uri = params.text_document.uri
        path = path_of(uri)
        return [_lens(uri, kernel) for kernel in kernels(session, path)] if path is not None else []


def _lens(uri: str, kernel: Kernel) -> types.CodeLens:
    # A lens is shown above its line; column 0 is the same in every position encoding.
    line = kernel.decl.name_range.start.line
    start = types.Position(line, 0)
    return types.CodeLens(
        range=types.Range(start, start),
        command=types.Command(title=_title(kernel), command=CHECK, arguments=[uri]),
    )


def _title(kernel: Kernel) -> str:
    parts = [item.words for item in kernel.summaries()] or ["not checked yet"]
    for arch, usage in kernel.resources.items():
        text = f"{usage.registers} registers"
        if usage.spill_stores or usage.spill_loads:
            text += f", {usage.spill_stores + usage.spill_loads} B spilled"
        parts.append(f"{text} ({arch})")
    return "gpuemu: " + " | ".join(parts)
