"""Validation of parsed TOML against the keys, and conversion of its values. All errors are collected.

Checks of a single value are here and in :mod:`.values`; checks of several values, such as min and max or names and
dims, are in the modules that build the records.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from gpuemu_lsp.engine.project import values
from gpuemu_lsp.engine.project.keys import ARGUMENT, ROOT
from gpuemu_lsp.engine.project.message_text import closest, did_you_mean, shorten
from gpuemu_lsp.engine.project.tree import Path
from gpuemu_lsp.engine.project.value_kinds import (
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
    accepts,
    join,
    toml_type,
)
from gpuemu_lsp.engine.project.values import INVALID, ConfigContext

_ARGUMENT = re.compile(r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*|\[\d+\])*", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_OPTION = String(what="an option")


def check_table(table: Table, value: Mapping[str, Any], path: Path, context: ConfigContext) -> dict[str, Any]:
    """Return the valid values of a table, converted; absent keys stay absent."""
    if table.names == "argument":
        return _check_arguments(table, value, path, context)
    result: dict[str, Any] = {}
    if table.some and not value:
        known = join(f"`{key.name}`" for key in table.keys)
        context.reporter.bad_value(path, f"`{path[-1]}` is an empty table; it needs {known}.")
    for name, item in value.items():
        here = (*path, name)
        key = table.key(name) or _free_key(table, name, here, context)
        if key is None:
            continue
        checked = check_value(key, item, here, context)
        stored = DTYPES[name] if table.names == "dtype" else name
        if stored in result:
            context.reporter.bad_key(here, f"`{name}` is another spelling of `{stored}`, which is already set.")
        elif checked is not INVALID:
            result[stored] = checked
    for key in table.keys:
        if key.required and key.name not in value and key.unless not in value:
            example = f'`{key.name} = "{key.example}"`'
            context.reporter.missing_key(path, f"Missing key `{key.name}`. Add it, for example {example}.")
    return result


def _check_arguments(table: Table, value: Mapping[str, Any], path: Path, context: ConfigContext) -> dict[str, Any]:
    """Return the valid arguments by dotted name; those of a struct may be a table or have dotted keys."""
    assert table.free is not None
    result: dict[str, Any] = {}
    first: dict[str, Path] = {}
    for name, here, item in _leaves(value, path, ""):
        if not _ARGUMENT.fullmatch(name):
            message = f"`{shorten(name)}` is not a C identifier; use a parameter's, or `p.x` for a field."
            context.reporter.bad_key(here, message)
        elif first.setdefault(name, here) != here:
            context.reporter.bad_key(here, f"`{shorten(name)}` is already set, in another spelling.")
        elif (checked := check_value(table.free, item, here, context)) is not INVALID:
            result[name] = checked
    return result


def flat_arguments(value: Mapping[str, Any], path: Path) -> dict[str, tuple[Path, Any]]:
    """Return the path and the value of every argument by dotted name; the fields of a struct have one each."""
    return {name: (here, item) for name, here, item in _leaves(value, path, "")}


def _leaves(value: Mapping[str, Any], path: Path, prefix: str) -> Iterator[tuple[str, Path, Any]]:
    for name, item in value.items():
        if _is_struct(item):
            yield from _leaves(item, (*path, name), f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", (*path, name), item


def _is_struct(item: Any) -> bool:
    """Return whether a value is a table of a struct's fields.

    No key of an argument takes a table, so that one with a table in it is a struct; otherwise it must not have a key of
    an argument, nor a list, which would be the shape behind a misspelt ``in`` or ``out``.
    """
    if not isinstance(item, dict) or not item:
        return False
    if any(isinstance(inner, dict) for inner in item.values()):
        return True
    return not any(ARGUMENT.key(name) is not None or isinstance(inner, list) for name, inner in item.items())


def check_value(key: ConfigKey, value: Any, path: Path, context: ConfigContext) -> Any:
    """Return one value converted, or :data:`INVALID` after reporting the error."""
    return _check(key.kind, value, path, context, key)


def _free_key(table: Table, name: str, path: Path, context: ConfigContext) -> ConfigKey | None:
    reporter = context.reporter
    if table.free is None:
        known = [key.name for key in table.keys]
        close, here = closest(name, known), f" Known here: {join([f'`{key}`' for key in known], 'and')}."
        hint = did_you_mean(close) or _elsewhere(name) or here
        reporter.unknown_key(path, f"Unknown key `{shorten(name)}`.{hint}", close)
        return None
    if table.names == "dtype" and name not in DTYPES:
        reporter.unknown_key(path, *values.not_a_dtype(name))
        return None
    if table.names == "identifier" and not _IDENTIFIER.fullmatch(name):
        reporter.bad_key(path, f"`{shorten(name)}` is not a C identifier; use letters, digits and underscores.")
        return None
    return table.free


def _check(kind: ValueKind, value: Any, path: Path, context: ConfigContext, key: ConfigKey) -> Any:
    given = toml_type(value)
    if given not in accepts(kind):
        return values.wrong(kind, value, path, context, key)
    match kind:
        case String():
            return values.text(kind, value, path, context, key)
        case Integer():
            return values.integer(kind, value, path, context, key)
        case Real():
            return values.real(kind, value, path, context, key)
        case Boolean():
            return value
        case Dtype():
            return values.dtype(value, path, context)
        case Arch():
            return values.arch(value, path, context)
        case PathTo():
            return values.path_to(kind, value, path, context, key)
        case Formula():
            return values.formula(kind, value, path, context, key)
        case Literal():
            return values.literal(kind, value, path, context, key)
        case Constexpr():
            return values.constexpr(value, path, context, key)
        case Options():
            return _check_options(value, path, context, key)
        case Sequence():
            return _check_sequence(kind, value, path, context, key)
        case Either(alternatives=alternatives):
            chosen = next(alternative for alternative in alternatives if given in accepts(alternative))
            return _check(chosen, value, path, context, key)
        case Table():
            return check_table(kind, value, path, context)
        case Tables():
            return value  # the entries are checked one by one, so that findings have their kernel


def _check_sequence(kind: Sequence, value: Any, path: Path, context: ConfigContext, key: ConfigKey) -> Any:
    if not isinstance(value, list):
        item = _check(kind.item, value, path, context, key)
        return INVALID if item is INVALID else (item,)
    if len(value) < kind.minimum or (kind.maximum is not None and len(value) > kind.maximum):
        context.reporter.bad_value(path, f"`{path[-1]}` has {len(value)} values; it needs {_count(kind)}.")
        return INVALID
    items = [_check(kind.item, item, (*path, index), context, key) for index, item in enumerate(value)]
    return INVALID if any(item is INVALID for item in items) else tuple(items)


def _count(kind: Sequence) -> str:
    if kind.maximum is None:
        return f"at least {kind.minimum}"
    return str(kind.minimum) if kind.minimum == kind.maximum else f"{kind.minimum} to {kind.maximum}"


def _check_options(value: str | list[Any], path: Path, context: ConfigContext, key: ConfigKey) -> Any:
    if isinstance(value, str):
        try:
            options = tuple(shlex.split(value))
        except ValueError as error:
            problem = f"`{key.name}` cannot be split into options: {str(error).lower()}."
            context.reporter.bad_value(path, f"{problem} A list of strings needs no quoting.")
            return INVALID
        places: list[Path] = [path] * len(options)
    else:
        options = _check_sequence(Sequence(_OPTION, minimum=0), value, path, context, key)
        if options is INVALID:
            return INVALID
        places = [(*path, index) for index in range(len(options))]
    for option, place in zip(options, places, strict=True):
        if re.match(r"-(-gpu-architecture|arch)\b", option):
            context.reporter.bad_value(
                place, f"`{shorten(option)}` is set by the key `arch`: use `arch = ...` instead."
            )
            return INVALID
    return options


def _elsewhere(name: str) -> str:
    for header, table in _tables(ROOT, ""):
        if table.key(name) is not None:
            return f" It belongs in `{header}`."
    return f" It is a top-level table: `[{name}]`." if ROOT.key(name) else ""


def _tables(table: Table, name: str) -> Iterable[tuple[str, Table]]:
    for key in table.keys:
        inner = key.kind.table if isinstance(key.kind, Tables) else key.kind
        if isinstance(inner, Table):
            full = f"{name}.{key.name}".lstrip(".")
            yield (f"[[{full}]]" if isinstance(key.kind, Tables) else f"[{full}]"), inner
            yield from _tables(inner, full)
