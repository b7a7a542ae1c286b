"""Registration of a kernel by command: writes its entry of gpuemu.toml and a template of its reference."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from lsprotocol import types
from pygls.capabilities import get_capability

from gpuemu_lsp.engine.project.edits import applied
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.code_actions.resolver import CodeActionResolver, FileChange
from gpuemu_lsp.server.session import Session


@dataclass(frozen=True, slots=True)
class RegisteredFiles:
    """The files that a registration has written or edited."""

    config: str
    reference: str


class Registrar:
    """Registers kernels on disk, or in the editor where gpuemu.toml is open."""

    def __init__(self, server: GpuemuServer, session: Session, resolver: CodeActionResolver) -> None:
        self._server = server
        self._session = session
        self._resolver = resolver

    async def register(self, path: str, kernel: str) -> RegisteredFiles | str:
        """Register a kernel of a file; return the files, or the reason why it cannot be registered."""
        changes = await self._resolver.registration(path, kernel)
        if isinstance(changes, str):
            return changes
        reference, config = changes
        in_editor = [config] if config.path in self._session.documents and self._can_edit() else []
        on_disk = [change for change in changes if change not in in_editor]
        try:
            await self._session.parsed_files.run_in_thread(_write, on_disk)
        except OSError as error:
            return f"{error.filename} cannot be written: {error.strerror or error}."
        if in_editor:  # the text on disk may be older than the editor's
            edit = types.ApplyWorkspaceEditParams(self._resolver.workspace_edit(in_editor), label=f"Register {kernel}")
            answer = await self._server.workspace_apply_edit_async(edit)
            if not answer.applied:
                return f"The editor did not change {config.path}: {answer.failure_reason or 'no reason was given'}."
        return RegisteredFiles(config.path, reference.path)

    def _can_edit(self) -> bool:
        return bool(get_capability(self._server.client_capabilities, "workspace.apply_edit", False))


def _write(changes: list[FileChange]) -> None:
    for item in changes:
        target = Path(item.path)
        text = target.read_bytes().decode("utf-8") if target.exists() else ""
        target.write_bytes(applied(text, item.change).encode("utf-8"))
