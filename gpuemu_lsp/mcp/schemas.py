"""JSON Schema of the arguments and results of tools, and the check of arguments against it."""

from __future__ import annotations

import json
from collections.abc import Container, Iterator, Mapping
from typing import TypeAlias

from gpuemu_lsp.engine.findings import Json

Schema: TypeAlias = "dict[str, Json]"
_LONG = 200
"""Characters of a part of a schema that is worth a definition."""

_TYPES: Mapping[str, tuple[type, ...]] = {
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "object": (dict,),
    "array": (list,),
    "null": (type(None),),
}


def text(description: str = "", *, choices: tuple[str, ...] = ()) -> Schema:
    """Return the schema of a string, of one of ``choices`` if there are any."""
    return _described({"type": "string", **({"enum": list(choices)} if choices else {})}, description)


def integer(description: str = "", *, minimum: int | None = None, maximum: int | None = None) -> Schema:
    """Return the schema of a whole number."""
    return _described({"type": "integer", **_limits(minimum, maximum)}, description)


def number(description: str = "", *, minimum: float | None = None, maximum: float | None = None) -> Schema:
    """Return the schema of a number of an argument, which is finite."""
    return _described({"type": "number", **_limits(minimum, maximum)}, description)


def value(description: str = "") -> Schema:
    """Return the schema of a number of a kernel: ``nan``, ``inf`` and ``-inf`` are strings, which JSON lacks."""
    return _described({"type": ["number", "string", "null"]}, description)


def boolean(description: str = "") -> Schema:
    """Return the schema of true or false."""
    return _described({"type": "boolean"}, description)


def array(items: Schema, description: str = "") -> Schema:
    """Return the schema of a list."""
    return _described({"type": "array", "items": items}, description)


def mapping(values: Schema, description: str = "") -> Schema:
    """Return the schema of an object with any names."""
    return _described({"type": "object", "additionalProperties": values}, description)


def record(properties: Mapping[str, Schema], required: tuple[str, ...] | None = None, description: str = "") -> Schema:
    """Return the schema of an object with these properties only; all are ``required`` by default."""
    names = tuple(properties) if required is None else required
    schema: Schema = {
        "type": "object",
        "properties": dict(properties),
        "required": list(names),
        "additionalProperties": False,
    }
    return _described(schema, description)


def nullable(schema: Schema) -> Schema:
    """Return the schema of a value that may be null."""
    described = {"description": schema["description"]} if "description" in schema else {}
    return {"anyOf": [schema, {"type": "null"}], **described}


def shortened(schema: Schema) -> Schema:
    """Return the same schema with each long part that occurs several times in ``$defs``, once.

    A definition is called like the property that has it first.
    """
    first: dict[str, str] = {}
    names: dict[str, str] = {}
    for name, key in _parts(schema, "", first):
        if key in first:
            same = sum(taken.rstrip("0123456789") == first[key] for taken in names.values())
            names.setdefault(key, f"{first[key]}{same + 1}" if same else first[key])
        first.setdefault(key, name)
    definitions: dict[str, Json] = {name: _referring(json.loads(key), names, whole=True) for key, name in names.items()}
    short = _referring(schema, names, whole=True)
    assert isinstance(short, dict)
    return {**short, "$defs": definitions} if definitions else short


def _parts(schema: Json, name: str, seen: Container[str]) -> Iterator[tuple[str, str]]:
    """Yield the long schemas within a schema as text, outer ones first, with the property that each belongs to.

    What is inside of one that is in ``seen`` is left out: a definition of the outer one has it.
    """
    if not isinstance(schema, dict):
        return
    inner: list[tuple[str, Json]] = []
    properties, choices = schema.get("properties"), schema.get("anyOf")
    inner += properties.items() if isinstance(properties, dict) else ()
    inner += ((name, schema.get(keyword)) for keyword in ("items", "additionalProperties"))
    inner += ((name, choice) for choice in choices) if isinstance(choices, list) else ()
    for property_, part in inner:
        key = _key(part)
        known = key in seen
        if isinstance(part, dict) and len(key) >= _LONG:
            yield property_, key
        if not known:
            yield from _parts(part, property_, seen)


def _referring(schema: Json, names: Mapping[str, str], *, whole: bool = False) -> Json:
    """Return a schema with references in place of the definitions; ``whole``: not of the schema itself."""
    if isinstance(schema, list):
        return [_referring(item, names) for item in schema]
    if not isinstance(schema, dict):
        return schema
    name = names.get(_key(schema))
    if name is not None and not whole:
        return {"$ref": f"#/$defs/{name}"}
    return {key: _referring(inner, names) for key, inner in schema.items()}


def _key(schema: Json) -> str:
    return json.dumps(schema)


def problems(schema: Mapping[str, Json], given: Json, name: str = "arguments") -> Iterator[str]:
    """Yield what is wrong with arguments, a sentence each; of schemas as this module makes them for arguments."""
    expected = schema["type"]
    assert isinstance(expected, str)
    if not isinstance(given, _TYPES[expected]) or (isinstance(given, bool) and expected != "boolean"):
        article = "an" if expected[0] in "aio" else "a"
        yield f"{name} must be {article} {expected}, not {_shown(given)}"
        return
    choices = schema.get("enum")
    if isinstance(choices, list) and given not in choices:
        yield f"{name} must be one of {', '.join(map(str, choices))}, not {_shown(given)}"
    for key, fails, word in (("minimum", -1, "at least"), ("maximum", 1, "at most")):
        limit = schema.get(key)
        if isinstance(limit, int | float) and isinstance(given, int | float) and (given - limit) * fails > 0:
            yield f"{name} must be {word} {limit}, not {_shown(given)}"
    if isinstance(given, dict):
        yield from _of_object(schema, given, name)
    items = schema.get("items")
    if isinstance(given, list) and isinstance(items, dict):
        for number_, item in enumerate(given):
            yield from problems(items, item, f"{name}[{number_}]")


def _of_object(schema: Mapping[str, Json], given: Mapping[str, Json], name: str) -> Iterator[str]:
    properties, more, required = (
        schema.get("properties", {}),
        schema.get("additionalProperties"),
        schema.get("required"),
    )
    assert isinstance(properties, dict)
    for key in required if isinstance(required, list) else ():
        if key not in given:
            yield f"{name} lacks {key!r}"
    for key, item in given.items():
        inner = properties.get(key, more)
        if isinstance(inner, dict):
            yield from problems(inner, item, key if name == "arguments" else f"{name}.{key}")
        elif more is False:
            yield f"{name} has no {key!r}; there are: {', '.join(properties) or 'none'}"


def _shown(given: Json) -> str:
    shown = repr(given)
    return shown if len(shown) <= 40 else f"{shown[:37]}..."


def _limits(minimum: float | None, maximum: float | None) -> Schema:
    limits = {"minimum": minimum, "maximum": maximum}
    return {name: limit for name, limit in limits.items() if limit is not None}


def _described(schema: Schema, description: str) -> Schema:
    return {**schema, "description": description} if description else schema
