"""Serialisation of frozen dataclasses to JSON, for records that cross a process boundary.

:func:`to_json` needs no type information: every record carries its class name. :func:`from_json` gets the expected
type and is strict: an unknown or missing field, or a value of another type, is an error that names its path. Values
without a JSON form are objects with one key that starts with ``$``:

=====================  ==========================================================
``{"$float": "nan"}``   a float that is not finite
``{"$bytes": "..."}``   bytes, in base64
``{"$expression": t}``  an expression of gpuemu.toml, as text
``{"$map": [[k, v]]}``  a mapping with a key that is not a string or starts with ``$``
=====================  ==========================================================
"""

from __future__ import annotations

import base64
import binascii
import dataclasses
import functools
import math
import types
import typing
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum
from typing import Any, TypeAlias, TypeVar

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, parse

T = TypeVar("T")

_TYPE = "$type"


class WireError(ValueError):
    """JSON that is not the expected record, or a value without a JSON form."""


class _AnyJson:
    """Placeholder for the recursive alias ``Json`` in resolved annotations."""


def to_json(value: object) -> Json:
    """Return ``value`` as JSON.

    Parameters
    ----------
    value : object
        A dataclass instance, an enum with a string value, a mapping, sequence, set, number, string, bytes, None or
        a NumPy scalar, arbitrarily nested.

    Raises
    ------
    WireError
        If it contains anything else.
    """
    kind: Any = type(value)
    if value is None or kind is str or kind is bool or kind is int:
        return typing.cast("Json", value)
    if isinstance(value, (bool, str)):
        return str(value.value) if isinstance(value, Enum) else value
    if isinstance(value, Expression):
        return {"$expression": value.text}
    if (names := _field_names(kind)) is not None:
        record: dict[str, Json] = {_TYPE: kind.__name__}
        for name in names:
            record[name] = to_json(getattr(value, name))
        return record
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else {"$float": repr(float(value))}
    if isinstance(value, Mapping):
        if all(isinstance(key, str) and not key.startswith("$") for key in value):
            return {str(key): to_json(item) for key, item in value.items()}
        return {"$map": [[to_json(key), to_json(item)] for key, item in value.items()]}
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    if isinstance(value, (set, frozenset)):
        return [to_json(item) for item in sorted(value)]
    if isinstance(value, bytes):
        return {"$bytes": base64.b64encode(value).decode("ascii")}
    if type(value).__module__ == "numpy" and getattr(value, "ndim", None) == 0:
        return to_json(value.item())  # type: ignore[attr-defined]
    raise WireError(f"a {type(value).__name__} has no JSON form")


@functools.cache
def _field_names(kind: type) -> tuple[str, ...] | None:
    """Return the names of a dataclass' fields; None for another class."""
    return tuple(field.name for field in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else None


def from_json(kind: type[T], data: Json) -> T:
    """Return the value of type ``kind`` that :func:`to_json` encoded as ``data``.

    Parameters
    ----------
    kind : type
        A dataclass, or any annotation that a field may have: unions, ``tuple[X, ...]``, ``Mapping[str, X]``, ...
    data : Json
        The result of :func:`to_json`, possibly encoded as text and decoded again.

    Raises
    ------
    WireError
        If ``data`` is not a ``kind``.
    """
    return typing.cast("T", _decode(kind, data, "$"))


def _decode(kind: Any, data: Json, where: str) -> Any:
    """Decode ``data`` as ``kind``. ``where`` is the path of keys to it, for messages."""
    return _decoder(kind)(data, where)


_Decoder: TypeAlias = Callable[[Json, str], Any]


@functools.cache
def _decoder(kind: Any) -> _Decoder:
    """Return the function that decodes a type: what the type is takes longer to find out than most values to decode."""
    if kind is _AnyJson or kind is Any:
        return _plain
    if dataclasses.is_dataclass(kind) and isinstance(kind, type):
        return functools.partial(_record, kind)
    origin = typing.get_origin(kind)
    if origin in (typing.Union, types.UnionType):
        return functools.partial(_union, typing.get_args(kind))
    if origin is not None:
        return functools.partial(_container, origin, typing.get_args(kind))
    return functools.partial(_scalar, kind)


def _scalar(kind: Any, data: Json, where: str) -> Any:
    special = data if isinstance(data, dict) else {}
    if kind is None or kind is type(None):
        if data is None:
            return None
    elif kind is bool:
        if isinstance(data, bool):
            return data
    elif kind is int:
        if isinstance(data, int) and not isinstance(data, bool):
            return data
    elif kind is float:
        if isinstance(data, (int, float)) and not isinstance(data, bool):
            return float(data)
        if special.keys() == {"$float"}:
            return _not_finite(special["$float"], where)
    elif kind is bytes:
        if special.keys() == {"$bytes"}:
            try:
                return base64.b64decode(str(special["$bytes"]), validate=True)
            except binascii.Error as error:
                raise WireError(f"{where}: {error}") from error
    elif isinstance(kind, type) and issubclass(kind, Enum):
        try:
            return kind(data)
        except ValueError as error:
            raise WireError(f"{where}: {error}") from error
    elif kind is str and isinstance(data, str):
        return data
    raise WireError(f"{where}: expected {getattr(kind, '__name__', kind)}, found {_shorten(data)}")


def _not_finite(text: Json, where: str) -> float:
    if text not in ("nan", "inf", "-inf"):
        raise WireError(f"{where}: expected nan, inf or -inf, found {_shorten(text)}")
    return float(str(text))


def _record(kind: Any, data: Json, where: str) -> Any:
    if not isinstance(data, dict):
        raise WireError(f"{where}: expected {kind.__name__}, found {_shorten(data)}")
    if kind is Expression:
        if data.keys() != {"$expression"}:
            raise WireError(f"{where}: expected an expression, found {_shorten(data)}")
        try:
            return parse(str(data["$expression"]))
        except ExpressionError as error:
            raise WireError(f"{where}: {error.message}") from error
    if data.get(_TYPE) != kind.__name__:
        raise WireError(f"{where}: expected {kind.__name__}, found {data.get(_TYPE)}")
    fields = _fields(kind)
    if unknown := data.keys() - fields.keys() - {_TYPE}:
        raise WireError(f"{where}: {kind.__name__} has no field {', '.join(sorted(unknown))}")
    if missing := fields.keys() - data.keys():
        raise WireError(f"{where}: {kind.__name__} lacks {', '.join(sorted(missing))}")
    return kind(
        **{
            # Most fields are texts or None, and most of these are what is expected.
            name: value
            if ((value := data[name]) is None and optional) or (text and type(value) is str)
            else decoder(value, f"{where}.{name}")
            for name, (decoder, text, optional) in fields.items()
        }
    )


def _union(kinds: tuple[Any, ...], data: Json, where: str) -> Any:
    """Decode one of several types: records by their class name, other values by trying, narrowest type first."""
    if data is not None and len(rest := [kind for kind in kinds if kind is not type(None)]) == 1:
        return _decode(rest[0], data, where)
    for kind in _ranked(kinds):
        try:
            return _decode(kind, data, where)
        except WireError as error:
            if isinstance(data, dict) and data.get(_TYPE) == getattr(kind, "__name__", None):
                raise error  # the right record with an error inside: report that one
    names = " | ".join(getattr(kind, "__name__", str(kind)) for kind in kinds)
    raise WireError(f"{where}: expected {names}, found {_shorten(data)}")


@functools.cache
def _ranked(kinds: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(sorted(kinds, key=lambda kind: _NARROW_FIRST.index(kind) if kind in _NARROW_FIRST else -1))


_NARROW_FIRST = (type(None), bool, int, float, str)
"""The order of trying: True must not decode as 1, nor 1 as 1.0."""


def _container(origin: Any, arguments: tuple[Any, ...], data: Json, where: str) -> Any:
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return _mapping(arguments, data, where)
    if not isinstance(data, list):
        raise WireError(f"{where}: expected a list, found {_shorten(data)}")
    if origin is tuple and arguments[-1:] != (Ellipsis,):
        if len(data) != len(arguments):
            raise WireError(f"{where}: expected {len(arguments)} items, found {len(data)}")
        return tuple(_decode(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(arguments, data)))  # noqa: B905
    items = [_decode(arguments[0], item, f"{where}[{i}]") for i, item in enumerate(data)]
    if origin is tuple or origin is list or origin in (set, frozenset):
        return origin(items)
    if isinstance(origin, type) and issubclass(origin, Sequence):
        return tuple(items)
    raise WireError(f"{where}: {origin} cannot be decoded")


def _mapping(arguments: tuple[Any, ...], data: Json, where: str) -> dict[Any, Any]:
    key_kind, value_kind = arguments
    if not isinstance(data, dict):
        raise WireError(f"{where}: expected a mapping, found {_shorten(data)}")
    pairs: Iterable[tuple[Json, Json]]
    if data.keys() == {"$map"}:
        entries = data["$map"]
        if not isinstance(entries, list) or not all(isinstance(pair, list) and len(pair) == 2 for pair in entries):
            raise WireError(f"{where}: expected pairs, found {_shorten(entries)}")
        pairs = ((pair[0], pair[1]) for pair in entries if isinstance(pair, list))
    else:
        pairs = data.items()
    return {
        _decode(key_kind, key, f"{where} key"): _decode(value_kind, value, f"{where}.{key}") for key, value in pairs
    }


def _plain(data: Json, where: str) -> Json:
    """Decode a field of type ``Json``: only values without a JSON form are converted."""
    if isinstance(data, list):
        return [_plain(item, where) for item in data]
    if not isinstance(data, dict):
        return data
    if data.keys() == {"$float"}:
        return _not_finite(data["$float"], where)
    if data.keys() == {"$map"}:
        return _mapping((str, _AnyJson), data, where)
    return {key: _plain(value, where) for key, value in data.items()}


@functools.cache
def _fields(kind: Any) -> dict[str, tuple[_Decoder, bool, bool]]:
    """Return, for each field of a dataclass, its decoder, and whether a text and whether None is valid as it is.

    ``Json`` is recursive, which typing cannot resolve.
    """
    resolved = typing.get_type_hints(kind, localns={"Json": _AnyJson})
    fields = {}
    for field in dataclasses.fields(kind):
        hint = resolved[field.name]
        kinds = typing.get_args(hint) if typing.get_origin(hint) in (typing.Union, types.UnionType) else (hint,)
        fields[field.name] = _decoder(hint), set(kinds) <= {str, type(None)}, type(None) in kinds
    return fields


def _shorten(data: Json) -> str:
    text = repr(data)
    return text if len(text) <= 60 else f"{text[:57]}..."
