"""The architecture that a program is compiled for, from nvcc's options that choose some."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

DEFAULT: Final = "80"
_HOPPER: Final = 90
"""The first architecture with instructions that programs cannot do without."""
_OPTIONS: Final = frozenset(("-arch", "--gpu-architecture", "-code", "--gpu-code", "-gencode", "--generate-code"))
_NAME = re.compile(r"(?:sm|compute|lto)_(\d+)([af]?)")


def requested_architecture(arguments: Sequence[str]) -> str:
    """Return the architecture to compile for: ``"80"``, or the lowest one that the options name if that is 90 or later.

    A program has code for several devices; that of the lowest runs on most. ``sm_90a`` has instructions that ``sm_90``
    lacks, and is chosen where both are named.
    """
    named = list(_named(arguments))
    if not named:
        return DEFAULT
    lowest = min(number for number, _ in named)
    if lowest < _HOPPER:
        return DEFAULT
    suffix = max(suffix for number, suffix in named if number == lowest)
    return f"{lowest}{suffix}"


def _named(arguments: Iterable[str]) -> Iterator[tuple[int, str]]:
    """Yield the architectures in the values of options."""
    remaining = iter(arguments)
    for argument in remaining:
        option, _, value = argument.partition("=")
        if option not in _OPTIONS:
            continue
        for match in _NAME.finditer(value or next(remaining, "")):
            yield int(match[1]), match[2]
