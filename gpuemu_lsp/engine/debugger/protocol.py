"""Arguments and answers of requests, as JSON."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from gpuemu_lsp.engine.findings import Json

Arguments: TypeAlias = Mapping[str, Json]
Body: TypeAlias = dict[str, Json]


class DebugRequestError(ValueError):
    """A request that cannot be answered; the message is for the user."""


def number(arguments: Arguments, name: str) -> int:
    """Return an integer argument, 0 if it is missing."""
    value = arguments.get(name)
    return value if isinstance(value, int) else 0


def text(arguments: Arguments, name: str) -> str:
    """Return a text argument, "" if it is missing."""
    value = arguments.get(name)
    return value if isinstance(value, str) else ""


def records(arguments: Arguments, name: str) -> list[Arguments]:
    """Return a list of objects, empty if it is missing."""
    value = arguments.get(name)
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def address_of(arguments: Arguments, name: str = "memoryReference") -> int:
    """Return the address that an argument names.

    Raises
    ------
    DebugRequestError
        If it is not one.
    """
    try:
        return int(text(arguments, name), 0)
    except ValueError:
        raise DebugRequestError(f"'{arguments.get(name)}' is not an address") from None


def linear(value: Json, extent: Sequence[int], what: str) -> int:
    """Return the linear number of a thread or block, given as that number or as an index of two or three numbers.

    Raises
    ------
    DebugRequestError
        If there is no such thread or block.
    """
    index = value if isinstance(value, list) else [value]
    numbers = [one for one in index if isinstance(one, int) and not isinstance(one, bool)]
    if len(numbers) == len(index) == 1 and 0 <= numbers[0] < extent[0] * extent[1] * extent[2]:
        return numbers[0]
    if len(numbers) == len(index) and len(numbers) in (2, 3):
        x, y, z = (*numbers, 0)[:3]
        if 0 <= x < extent[0] and 0 <= y < extent[1] and 0 <= z < extent[2]:
            return x + extent[0] * (y + extent[1] * z)
    shown = f"({', '.join(map(str, index))})" if len(index) > 1 else str(value)
    raise DebugRequestError(f"there is no {what} {shown}: there are {' x '.join(map(str, extent))}")
