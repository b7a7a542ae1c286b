"""Which of the many settings of a task are tried: of those that differ in sizes only, two."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping
from typing import Any

MOST_SETTINGS = 4
"""Settings that are tried: each is a run of its own."""


def varied(settings: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """Return of settings that differ in integers only the largest, and the one that powers of two divide least."""
    kinds: dict[Hashable, list[Mapping[str, Any]]] = {}
    for setting in settings:
        kind = repr(sorted((name, value) for name, value in setting.items() if type(value) is not int))
        kinds.setdefault(kind, []).append(setting)
    chosen = []
    for alike in kinds.values():
        largest = max(alike, key=lambda setting: sum(_sizes(setting)))
        odd = min(alike, key=_divisibility)
        chosen += [largest, odd] if _divisibility(odd) < _divisibility(largest) else [largest]
    return chosen[:MOST_SETTINGS]


def _sizes(setting: Mapping[str, Any]) -> list[int]:
    return [value for name, value in setting.items() if type(value) is int and name != "seed"]


def _divisibility(setting: Mapping[str, Any]) -> int:
    """Return how often two divides the sizes of a setting."""
    return sum((size & -size).bit_length() for size in _sizes(setting))
