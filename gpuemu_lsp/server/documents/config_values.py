"""Values that a key of gpuemu.toml may have at a cursor, from the kind of the key and the text around it."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.project.schema import lookup
from gpuemu_lsp.engine.project.value_kinds import (
    DTYPES,
    Arch,
    Boolean,
    Dtype,
    Either,
    Formula,
    PathTo,
    String,
    ValueKind,
)
from gpuemu_lsp.engine.project.value_kinds import Sequence as ListOf
from gpuemu_lsp.server.documents.outline import ConfigSection, config_sections

_ASSIGNMENT = re.compile(r"^\s*(?P<keys>[A-Za-z0-9_.\"-]+)\s*=\s*(?P<value>.*)$")
_INNER_KEY = re.compile(r"([A-Za-z0-9_-]+)\s*=[^=]*$")
_WORD = re.compile(r"[A-Za-z0-9_./-]*$")
_KEY = re.compile(r"^\s*([A-Za-z_]\w*)\s*=")
_ARCHITECTURES = ("sm_70", "sm_75", "sm_80", "sm_86", "sm_89", "sm_90", "sm_90a")
_SUFFIXES = {"source": (".cu", ".cuh", ".hip"), "reference": (".py",)}
_MAX_FILES = 200
_MAX_DEPTH = 4


@dataclass(frozen=True, slots=True)
class ConfigValue:
    """A value to offer in TOML syntax, without the quotes that the text already has."""

    label: str
    text: str


@dataclass(frozen=True, slots=True)
class ValueCursor:
    """A cursor in a value: the section and path of its key, the text typed so far, and whether it is in a string."""

    section: ConfigSection | None
    key: tuple[str, ...]
    typed: str
    quoted: bool


def cursor_in_value(lines: Sequence[str], line: int, before: str) -> ValueCursor | None:
    """Return the value that ``before``, a line's text up to the cursor, ends in; None outside of values."""
    match = _ASSIGNMENT.match(before)
    if match is None:
        return None
    value = match["value"]
    keys = tuple(part.strip('"') for part in match["keys"].split("."))
    if value.lstrip().startswith("{") and (inner := _INNER_KEY.search(value)) is not None:
        keys, value = (*keys, inner[1]), value[inner.end(1) :]
    elif value.lstrip().startswith("{"):
        return None  # at a key of the inline table
    quoted = value.count('"') % 2 == 1
    typed = value.rpartition('"')[2] if quoted else _WORD.findall(value)[0]
    if not quoted and "#" in value:
        return None
    headers = [section for section in config_sections(lines) if section.first < line]
    return ValueCursor(headers[-1] if headers else None, keys, typed, quoted)


def values_at(lines: Sequence[str], path: str, line: int, cursor: ValueCursor) -> list[ConfigValue]:
    """Return the values to offer for a key. Accesses the disk for the names of files."""
    table = tuple(cursor.section.path.split(".")) if cursor.section is not None else ()
    key = lookup((*table, *cursor.key))
    if key is None:
        return []
    words = dict.fromkeys(_words(key.kind, key.name, lines, path, line))
    if cursor.quoted:
        return [ConfigValue(word, word) for word in words if word not in ("true", "false")]
    return [ConfigValue(word, word if word in ("true", "false") else f'"{word}"') for word in words]


def _words(kind: ValueKind, name: str, lines: Sequence[str], path: str, line: int) -> Iterator[str]:
    match kind:
        case Dtype():
            yield from dict.fromkeys(DTYPES.values())
        case Arch():
            yield from _ARCHITECTURES
        case Boolean():
            yield from ("true", "false")
        case Formula():
            yield from _dims(lines, line)
        case PathTo(folder=folder):
            yield from _files(Path(path).parent, () if folder else _SUFFIXES.get(name, ("",)))
        case String() if name == "like":
            yield from _other_kernels(lines, line)
        case String(choices=choices):
            yield from choices
        case ListOf(item=item):
            yield from _words(item, name, lines, path, line)
        case Either(alternatives=alternatives):
            for alternative in alternatives:
                yield from _words(alternative, name, lines, path, line)
        case _:
            return


def _dims(lines: Sequence[str], line: int) -> Iterator[str]:
    """Yield the dims of the entry that a line belongs to, as tables or inline."""
    sections = config_sections(lines)
    entry = next((one for one in reversed(sections) if one.is_entry and one.first <= line <= max(one.last, line)), None)
    if entry is None:
        return
    following = [one for one in sections if one.first > entry.first and one.is_entry]
    end = following[0].first if following else len(lines)
    for section in sections:
        if entry.first < section.first < end and section.path == f"{entry.path}.dims":
            yield from (match[1] for row in lines[section.first : section.last + 1] if (match := _KEY.match(row)))
    for row in lines[entry.first : end]:
        if re.match(r"^\s*dims\s*=\s*\{", row):
            depth = 0
            for match in re.finditer(r"[{}]|([A-Za-z_]\w*)\s*=", row.partition("=")[2]):
                depth += {"{": 1, "}": -1}.get(match[0], 0)
                if match[1] and depth == 1:
                    yield match[1]


def _other_kernels(lines: Sequence[str], line: int) -> Iterator[str]:
    entries = [section for section in config_sections(lines) if section.is_entry and section.path == "kernels"]
    own = next((section for section in reversed(entries) if section.first <= line), None)
    yield from (section.name for section in entries if section.name and section is not own)


def _files(root: Path, suffixes: tuple[str, ...]) -> Iterator[str]:
    """Yield the files below a folder with one of some suffixes, or its folders if there are none; none that is hidden.

    Bounded in depth and number: the folder may be a home directory.
    """
    count = 0
    for folder, folders, names in os.walk(root):
        depth = len(Path(folder).relative_to(root).parts)
        folders[:] = sorted(name for name in folders if not name.startswith((".", "__"))) if depth < _MAX_DEPTH else []
        for name in folders if not suffixes else sorted(names):
            if not suffixes or name.endswith(suffixes):
                yield (Path(folder) / name).relative_to(root).as_posix()
                count += 1
                if count == _MAX_FILES:
                    return
