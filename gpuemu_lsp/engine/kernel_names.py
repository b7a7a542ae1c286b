"""Names of kernels in entries of gpuemu.toml and in results: ``ns::scale``, ``scale<float, 4>``, ``scale(float*)``.

The last form, with the types of the parameters, names one of several kernels of the same name, which may be templates:
``scale<float>(float*, int)``.
"""

from __future__ import annotations

import re

_ARGUMENTS = re.compile(r"[<(]")
_SPACE = re.compile(r"\s+")
_AROUND_SIGN = re.compile(r" ?([*&,<>()]) ?")


def without_arguments(entry: str) -> str:
    """Return the name in an entry with its namespaces, and without template arguments and parameter types."""
    return _ARGUMENTS.split(entry, maxsplit=1)[0].strip()


def plain_name(entry: str) -> str:
    """Return the name in an entry alone."""
    return without_arguments(entry).split("::")[-1].strip()


def without_types(entry: str) -> str:
    """Return an entry without parameter types: its name with the template arguments."""
    opening = _types_at(entry)
    return entry.strip() if opening is None else entry[:opening].strip()


def parameter_types(entry: str) -> str | None:
    """Return the parameter types of an entry, with normal spaces; None for an entry without."""
    opening = _types_at(entry)
    return None if opening is None else spaced(entry[opening + 1 : entry.rindex(")")])


def name_expression(entry: str) -> str:
    """Return the C++ expression whose value is the address of an entry's kernel."""
    types = parameter_types(entry)
    return entry if types is None else f"(void(*)({types})){without_types(entry)}"


def _types_at(entry: str) -> int | None:
    """Return the position of the parenthesis that opens the parameter types; ``k<(Mode)1>`` has none."""
    text, depth = entry.rstrip(), 0
    if not text.endswith(")"):
        return None
    for position in range(len(text) - 1, 0, -1):
        depth += (text[position] == ")") - (text[position] == "(")
        if depth == 0:
            return position
    return None


def spaced(types: str) -> str:
    """Return parameter types with the spaces that entries have: ``const float*, int``."""
    return _AROUND_SIGN.sub(r"\1", _SPACE.sub(" ", types)).strip().replace(",", ", ")
