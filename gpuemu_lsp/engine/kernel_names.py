"""Names of kernels in entries of gpuemu.toml and in results: ``ns::scale``, ``scale<float, 4>``, ``scale(float*)``.

The last form, with the types of the parameters, names one of several kernels of the same name.
"""

from __future__ import annotations

import re

_ARGUMENTS = re.compile(r"[<(]")
_OVERLOAD = re.compile(r"(?P<name>[\w:\s]+?)\s*\((?P<types>.*)\)\s*$", re.DOTALL)
_SPACE = re.compile(r"\s+")
_AROUND_SIGN = re.compile(r" ?([*&,<>()]) ?")


def without_arguments(entry: str) -> str:
    """Return the name in an entry with its namespaces, and without template arguments and parameter types."""
    return _ARGUMENTS.split(entry, maxsplit=1)[0].strip()


def plain_name(entry: str) -> str:
    """Return the name in an entry alone."""
    return without_arguments(entry).split("::")[-1].strip()


def parameter_types(entry: str) -> str | None:
    """Return the parameter types of an entry, with normal spaces; None for an entry without."""
    match = _OVERLOAD.match(entry)
    return None if match is None else spaced(match["types"])


def name_expression(entry: str) -> str:
    """Return the C++ expression whose value is the address of an entry's kernel."""
    match = _OVERLOAD.match(entry)
    return entry if match is None else f"(void(*)({match['types']})){match['name']}"


def spaced(types: str) -> str:
    """Return parameter types with the spaces that entries have: ``const float*, int``."""
    return _AROUND_SIGN.sub(r"\1", _SPACE.sub(" ", types)).strip().replace(",", ", ")
