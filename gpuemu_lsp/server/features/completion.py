"""textDocument/completion: the keys a table of gpuemu.toml may still have."""

from __future__ import annotations

import re
from pathlib import Path

from lsprotocol import types

from gpuemu_lsp.engine.findings import Position
from gpuemu_lsp.engine.project import place_of
from gpuemu_lsp.engine.project.kinds import Key, Table, Tables
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.schema import describe_key, known_keys
from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.documents.positions import byte_position
from gpuemu_lsp.server.documents.uris import path_of
from gpuemu_lsp.server.session import Session

_KEY_BEGINS = re.compile(rb"^\s*[A-Za-z0-9_-]*$")
_HEADER_BEGINS = re.compile(r"^\s*\[")


def register(server: Server, session: Session) -> None:
    """Add the handler."""

    @server.feature(types.TEXT_DOCUMENT_COMPLETION, types.CompletionOptions())
    async def completion(params: types.CompletionParams) -> list[types.CompletionItem]:
        path = path_of(params.text_document.uri)
        document = session.documents.get(path) if path is not None else None
        if document is None or Path(document.path).name != CONFIG_NAME:
            return []
        asked = Position(params.position.line, params.position.character)
        lines = document.text.split("\n")
        position = byte_position(lines, asked, session.publisher.encoding)
        return await session.readings.away(_items, lines, position)


def _items(lines: list[str], position: Position) -> list[types.CompletionItem]:
    """Offer keys where a line begins; within a value only its author knows what to write."""
    line = lines[position.line].encode("utf-8", "replace")
    if not _KEY_BEGINS.match(line[: position.column]):
        return []
    table = _table_above(lines, position.line)
    return [_item(key) for key in known_keys(table)]


def _table_above(lines: list[str], line: int) -> tuple[str | int, ...]:
    for number in range(line - 1, -1, -1):
        if _HEADER_BEGINS.match(lines[number]):
            spot = place_of("\n".join(lines[: number + 1]), number, len(lines[number].encode("utf-8", "replace")))
            return spot.path if spot is not None else ()
    return ()


def _item(key: Key) -> types.CompletionItem:
    is_table = isinstance(key.kind, Table | Tables)
    return types.CompletionItem(
        label=key.name,
        kind=types.CompletionItemKind.Module if is_table else types.CompletionItemKind.Property,
        documentation=types.MarkupContent(types.MarkupKind.Markdown, describe_key(key)),
        sort_text=f"{0 if key.required else 1}{key.name}",
    )
