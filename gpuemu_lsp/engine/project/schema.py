"""JSON schema (for editors' TOML extensions) and documentation, generated from the keys."""

from __future__ import annotations

import textwrap

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.project.expressions import MAX_VALUE
from gpuemu_lsp.engine.project.keys import ARGUMENT, ROOT
from gpuemu_lsp.engine.project.message_text import toml
from gpuemu_lsp.engine.project.tree import Path
from gpuemu_lsp.engine.project.value_kinds import (
    ARCH_PATTERN,
    DTYPES,
    Arch,
    Boolean,
    ConfigKey,
    Constexpr,
    Dtype,
    Either,
    Formula,
    Integer,
    Literal,
    Options,
    PathTo,
    Real,
    Sequence,
    String,
    Table,
    Tables,
    ValueKind,
    describe,
)

_HEAD = """\
# gpuemu.toml

The configuration of the kernels in a folder and those below it. Relative paths are relative to its
folder. Unknown keys are errors. The language server validates and completes it; other TOML tools
can use `docs/gpuemu.schema.json`.

This page is generated from `gpuemu_lsp/engine/project/keys` by
`python -m gpuemu_lsp.cli.pages docs`."""

_NAMES: dict[str, Json] = {
    "identifier": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*$"},
    "argument": {"pattern": "^[A-Za-z_][A-Za-z0-9_]*([.][A-Za-z_][A-Za-z0-9_]*|[\\[][0-9]+[\\]])*$"},
    "dtype": {"enum": list(DTYPES)},
}


def json_schema() -> dict[str, Json]:
    """Return the draft-07 schema of gpuemu.toml.

    Relations between keys, names in expressions and files are checked by ``load`` only.
    """
    return {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "gpuemu.toml",
        "description": "CUDA kernels to check, their references, and the options of the check.",
        **_schema(ROOT),
    }


def document() -> str:
    """Return the documentation of every key as Markdown."""
    parts = [_HEAD, *_document(ROOT, "")]
    return "\n\n".join(parts) + "\n"


def lookup(path: Path) -> ConfigKey | None:
    """Return the key at a path of the file, for hover and completion; None for an unknown path."""
    table: Table | None = ROOT
    key: ConfigKey | None = None
    for part in path:
        if isinstance(part, int):
            continue
        if table is None:
            return None
        outer, key = key, table.key(part) or table.free
        if key is None and table is ARGUMENT:
            key = outer  # a field of a struct argument
        if key is None:
            return None
        table = inner_table(key.kind)
    return key


def known_keys(path: Path) -> tuple[ConfigKey, ...]:
    """Return the keys of the table at a path, for completion."""
    key = lookup(path)
    table = ROOT if key is None and not path else inner_table(key.kind) if key is not None else None
    return table.keys if table is not None else ()


def describe_key(key: ConfigKey) -> str:
    """Return a key's documentation as Markdown, for hover."""
    lines = [f"**{key.name}**: {describe(key.kind)}", "", key.doc]
    if key.default is not None:
        lines += ["", f"Default: `{toml(key.default)}`"]
    if key.example is not None:
        lines += ["", "```toml", f"{key.name} = {toml(key.example)}", "```"]
    return "\n".join(lines)


def inner_table(kind: ValueKind) -> Table | None:
    """Return the table that a value of this kind is or may be."""
    match kind:
        case Table():
            return kind
        case Tables(table=table):
            return table
        case Either(alternatives=alternatives):
            return next((found for found in map(inner_table, alternatives) if found is not None), None)
        case _:
            return None


def _schema(kind: ValueKind) -> dict[str, Json]:
    match kind:
        case String(choices=choices):
            return {"type": "string", "enum": list(choices)} if choices else {"type": "string", "minLength": 1}
        case Integer(minimum=low, maximum=high):
            return {"type": "integer", "minimum": low, "maximum": MAX_VALUE if high is None else high}
        case Real(minimum=low):
            return {"type": "number"} if low is None else {"type": "number", "minimum": low}
        case Boolean():
            return {"type": "boolean"}
        case Dtype():
            return {"type": "string", "enum": list(DTYPES)}
        case Arch():
            return {"type": "string", "pattern": f"^{ARCH_PATTERN}$"}
        case PathTo():
            return {"type": "string", "minLength": 1}
        case Literal():
            plain: list[Json] = ["string", "number", "boolean"]
            return {"anyOf": [{"type": plain}, {"type": "array", "items": {"type": plain}}]}
        case Constexpr():
            return {"type": ["number", "boolean", "string"]}
        case Formula(minimum=low):
            bounds: dict[str, Json] = {} if low is None else {"minimum": low}
            return {"anyOf": [{"type": "integer", **bounds}, {"type": "string", "minLength": 1}]}
        case Options():
            return {"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "string", "minLength": 1}}]}
        case Sequence():
            return _sequence_schema(kind)
        case Either(alternatives=alternatives):
            return {"anyOf": [_schema(alternative) for alternative in alternatives]}
        case Table():
            return _table_schema(kind)
        case Tables(table=table):
            return {"type": "array", "items": _table_schema(table)}


def _sequence_schema(kind: Sequence) -> dict[str, Json]:
    item = _schema(kind.item)
    array: dict[str, Json] = {"type": "array", "items": item, "minItems": kind.minimum}
    if kind.maximum is not None:
        array["maxItems"] = kind.maximum
    return {"anyOf": [item, array]} if kind.single else array


def _table_schema(table: Table) -> dict[str, Json]:
    properties: dict[str, Json] = {key.name: _key_schema(key) for key in table.keys}
    result: dict[str, Json] = {"type": "object", "properties": properties, "additionalProperties": False}
    if table.some:
        result["minProperties"] = 1
    required: list[Json] = [key.name for key in table.keys if key.required and key.unless is None]
    if required:
        result["required"] = required
    either: list[Json] = [_one_of(key.name, key.unless) for key in table.keys if key.required and key.unless]
    if either:
        result["allOf"] = either
    if table.free is not None:
        result["additionalProperties"] = _key_schema(table.free)
        result["propertyNames"] = _NAMES[table.names]
        if table.names == "argument":
            result["additionalProperties"] = {"anyOf": [_key_schema(table.free), _fields_schema(table.free)]}
    return result


def _fields_schema(argument: ConfigKey) -> dict[str, Json]:
    """Return the schema of a struct argument as a table of its fields: one without any key of an argument."""
    inner = inner_table(argument.kind)
    known: list[Json] = [{"required": [key.name]} for key in inner.keys] if inner is not None else []
    kinds: list[Json] = ["object", "string", "number", "boolean"]
    return {"type": "object", "minProperties": 1, "additionalProperties": {"type": kinds}, "not": {"anyOf": known}}


def _one_of(key: str, other: str) -> Json:
    return {"anyOf": [{"required": [key]}, {"required": [other]}]}


def _key_schema(key: ConfigKey) -> dict[str, Json]:
    result: dict[str, Json] = {"description": key.doc, **_schema(key.kind)}
    if key.default is not None:
        result["default"] = key.default
    if key.example is not None:
        result["examples"] = [key.example]
    return result


def _document(table: Table, header: str) -> list[str]:
    parts: list[str] = []
    leaves = [key for key in table.keys if not isinstance(key.kind, Table | Tables)]
    if leaves:
        rows = "\n".join(_row(key) for key in leaves)
        parts.append(f"| Key | Value | Default | Meaning |\n|---|---|---|---|\n{rows}")
        examples = "\n".join(f"{key.name} = {toml(key.example)}" for key in leaves if key.example is not None)
        if header and not header.endswith(">"):
            parts.append(f"```toml\n{header}\n{examples}\n```")
    if table.free is not None:
        free = table.free
        parts.append(f"{_wrapped(free.doc)}\n\n```toml\n{header}\n{free.name} = {toml(free.example)}\n```")
        inner = inner_table(free.kind)
        if inner is not None and inner.keys:
            parts.append(f"As a table, `{free.name}` has these keys:")
            parts += _document(inner, "<inline>")
    for key in table.keys:
        if isinstance(key.kind, Table | Tables):
            name = f"{header.strip('[]')}.{key.name}".lstrip(".")
            title = f"[[{name}]]" if isinstance(key.kind, Tables) else f"[{name}]"
            parts += [f"## `{title}`", _wrapped(key.doc)]
            parts += _document(key.kind.table if isinstance(key.kind, Tables) else key.kind, title)
    return parts


def _wrapped(text: str) -> str:
    return textwrap.fill(text, 100, break_long_words=False, break_on_hyphens=False)


def _row(key: ConfigKey) -> str:
    default = "" if key.default is None else f"`{toml(key.default)}`"
    if key.required:
        default = f"required without `{key.unless}`" if key.unless else "required"
    return f"| `{key.name}` | {describe(key.kind)} | {default} | {key.doc} |"
