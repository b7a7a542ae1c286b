"""What the sizes of the cases without findings have in common, where other cases have findings at assumed sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

Sizes = Mapping[str, int]


@dataclass(frozen=True, slots=True)
class CleanSizes:
    """A size that is a multiple of a number in all clean cases, and in no other case."""

    name: str
    multiple: int

    def __str__(self) -> str:
        return f"{self.name} a multiple of {self.multiple}"


def clean_at(clean: Sequence[Sizes], assumed: Sequence[Sizes]) -> CleanSizes | None:
    """Return what holds for the sizes of all clean cases and of none of the others, None if nothing does.

    Parameters
    ----------
    clean, assumed
        The sizes of cases without findings, and of those with findings that rest on assumed sizes. Instances of a
        template may have sizes of their own.
    """
    if not clean or not assumed:
        return None
    for name in (name for name in clean[0] if all(name in sizes for sizes in (*clean, *assumed))):
        divisor = math.gcd(*(sizes[name] for sizes in clean))
        if divisor > 1 and all(sizes[name] % divisor for sizes in assumed):
            return CleanSizes(name, divisor)
    return None
