"""What the sizes of the cases without findings have in common, where other cases have findings at assumed sizes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

Sizes = Mapping[str, int]


def clean_at(clean: Sequence[Sizes], assumed: Sequence[Sizes]) -> str:
    """Return in words what holds for the sizes of all clean cases and of none of the others, empty if nothing does.

    Parameters
    ----------
    clean, assumed
        The sizes of cases without findings, and of those with findings that rest on assumed sizes. Instances of a
        template may have sizes of their own.
    """
    if not clean or not assumed:
        return ""
    for name in (name for name in clean[0] if all(name in sizes for sizes in (*clean, *assumed))):
        divisor = math.gcd(*(sizes[name] for sizes in clean))
        if divisor > 1 and all(sizes[name] % divisor for sizes in assumed):
            return f"{name} a multiple of {divisor}"
    return ""
