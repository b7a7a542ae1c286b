"""Parts of the names of types and of kernels, as C++ writes them."""

from __future__ import annotations

import re

_VECTOR = re.compile(r"(?:\w+::)*(?P<kind>\w*vector)\s*<\s*(?P<element>.+?)\s*(?:,[^<>]*)?>$")
_OPTIONAL = re.compile(r"(?:\w+::)*optional\s*<(.+)>")
_FUNCTION = re.compile(r"(?:::)?(?:\w+::)*(?P<name>[A-Za-z_]\w*)\s*(?:<(?P<arguments>.*)>)?")


def base_name(name: str) -> str:
    """Return the name of a class without its scope and template arguments."""
    return name.removeprefix("struct ").split("<")[0].strip().split("::")[-1]


def split_template(name: str) -> list[str]:
    """Return the template arguments of a type as written, none for a type without them."""
    first, last = name.find("<"), name.rfind(">")
    if first < 0 or last < first:
        return []
    inside = name[first + 1 : last]
    parts, depth, start = [], 0, 0
    for index, sign in enumerate(inside):
        depth += (sign in "<([{") - (sign in ">)]}")
        if sign == "," and depth == 0:
            parts.append(inside[start:index].strip())
            start = index + 1
    return [part for part in (*parts, inside[start:].strip()) if part]


def vector_of(name: str) -> tuple[str, str] | None:
    """Return the kind of a vector (``vector``, ``device_vector``) and the type of its elements; None for others."""
    match = _VECTOR.match(name)
    return (match["kind"], match["element"]) if match is not None else None


def optional_of(name: str) -> str | None:
    """Return the type of the value that an optional one holds; None for other types."""
    match = _OPTIONAL.fullmatch(name)
    return match[1].strip() if match is not None else None


def function_of_name(name: str) -> tuple[str, tuple[str, ...]] | None:
    """Return the name and the template arguments in a name expression: ``scale<float>``; None for other text."""
    match = _FUNCTION.fullmatch(name.strip())
    return (match["name"], tuple(split_template(name))) if match is not None else None
