"""textDocument/completion in gpuemu.toml: keys of a table, and values of a key."""

from __future__ import annotations

import re
from pathlib import Path

from lsprotocol import types

from gpuemu_lsp.engine.findings import Position
from gpuemu_lsp.engine.project import place_of
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.schema import describe_key, known_keys
from gpuemu_lsp.engine.project.value_kinds import ConfigKey, Table, Tables
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.config_arguments import ArgumentName, argument_names
from gpuemu_lsp.server.documents.config_values import cursor_in_value, values_at
from gpuemu_lsp.server.documents.locations import byte_position, path_from_uri
from gpuemu_lsp.server.handlers import background_request
from gpuemu_lsp.server.services import Services

_KEY_PREFIX = re.compile(rb"^\s*(?P<typed>[A-Za-z0-9_.\"-]*)$")
_TABLE_HEADER = re.compile(r"^\s*\[")


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handler."""
    session = services.session

    options = types.CompletionOptions(trigger_characters=['"', "/", "."])

    @background_request(server, types.TEXT_DOCUMENT_COMPLETION, options)
    async def completion(params: types.CompletionParams) -> list[types.CompletionItem]:
        path = path_from_uri(params.text_document.uri)
        document = session.documents.get(path) if path is not None else None
        if document is None or Path(document.path).name != CONFIG_NAME:
            return []
        cursor = Position(params.position.line, params.position.character)
        lines = document.text.split("\n")
        position = byte_position(lines, cursor, session.publisher.encoding)
        return await session.parsed_files.run_in_thread(_items, document.path, lines, position, params.position)


def _items(path: str, lines: list[str], position: Position, cursor: types.Position) -> list[types.CompletionItem]:
    """Return keys at the start of a line, values behind ``key =``. ``cursor`` is the position in the client's units."""
    line = lines[position.line].encode("utf-8", "replace")
    prefix = _KEY_PREFIX.match(line[: position.column])
    if prefix is None:
        return _value_items(path, lines, position.line, line[: position.column].decode("utf-8", "replace"), cursor)
    table = _table_above(lines, position.line)
    names = argument_names(lines, path, position.line)
    typed = types.Range(types.Position(cursor.line, cursor.character - len(prefix["typed"])), cursor)
    return [*(_item(key) for key in known_keys(table)), *(_argument_item(name, typed) for name in names)]


def _value_items(
    path: str, lines: list[str], line: int, before: str, cursor: types.Position
) -> list[types.CompletionItem]:
    value = cursor_in_value(lines, line, before)
    if value is None:
        return []
    # Sizes of what was typed are the same in all encodings unless it has other characters than ASCII.
    start = types.Position(cursor.line, max(cursor.character - len(value.typed), 0))
    replaced = types.Range(start, cursor)
    return [
        types.CompletionItem(
            label=item.label,
            kind=types.CompletionItemKind.Value,
            filter_text=item.text,
            text_edit=types.TextEdit(replaced, item.text),
        )
        for item in values_at(lines, path, line, value)
    ]


def _table_above(lines: list[str], line: int) -> tuple[str | int, ...]:
    """Return the path of the table that a line belongs to."""
    for number in range(line - 1, -1, -1):
        if _TABLE_HEADER.match(lines[number]):
            # Only the text up to the header: the line being typed may not be valid TOML.
            location = place_of("\n".join(lines[: number + 1]), number, len(lines[number].encode("utf-8", "replace")))
            return location.path if location is not None else ()
    return ()


def _argument_item(name: ArgumentName, typed: types.Range) -> types.CompletionItem:
    # The whole key is replaced: clients end a word at the dot of `p.x`.
    return types.CompletionItem(
        label=name.key,
        detail=name.type,
        kind=types.CompletionItemKind.Field if "." in name.key else types.CompletionItemKind.Variable,
        filter_text=name.key,
        text_edit=types.TextEdit(typed, name.key),
        sort_text=f"0{name.key}",
    )


def _item(key: ConfigKey) -> types.CompletionItem:
    is_table = isinstance(key.kind, Table | Tables)
    return types.CompletionItem(
        label=key.name,
        kind=types.CompletionItemKind.Module if is_table else types.CompletionItemKind.Property,
        documentation=types.MarkupContent(types.MarkupKind.Markdown, describe_key(key)),
        sort_text=f"{0 if key.required else 1}{key.name}",
    )
