"""``[kernels.dims]``: symbolic sizes and the consistency of their bounds."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.project.reporter import Reporter
from gpuemu_lsp.engine.project.tree import Path

DEFAULT_MAXIMUM = 1024
"""The fuzzer's upper bound of a dim that has none."""


def build_dims(checked: Mapping[str, Any], path: Path, reporter: Reporter) -> dict[str, DimSpec]:
    """Build the dims from their checked values; a dim with contradictory bounds is reported and left out."""
    dims = {}
    for name, value in checked.items():
        dim = _dim(name, value, (*path, name), reporter)
        if dim is not None:
            dims[name] = dim
    return dims


def _dim(name: str, value: Any, path: Path, reporter: Reporter) -> DimSpec | None:
    if isinstance(value, int):
        return DimSpec(name, value, value)
    if isinstance(value, tuple):
        choices = tuple(dict.fromkeys(value))
        return DimSpec(name, min(choices), max(choices), choices=choices)
    low, high = value.get("min"), value.get("max")
    multiple = value.get("multiple_of", 1)
    include = tuple(dict.fromkeys(value.get("include", ())))
    if high is not None and low is not None and low > high:
        reporter.bad_value((*path, "min"), f"`min` = {low} of `{name}` is above `max` = {high}.")
        return None
    if high is not None and high // multiple * multiple < (low or 1):
        where = f"between {low or 1} and {high}"
        reporter.bad_value((*path, "multiple_of"), f"No multiple of {multiple} lies {where}; increase `max`.")
        return None
    contradicting = [(index, size) for index, size in enumerate(value.get("include", ())) if not _fits(size, value)]
    for index, size in contradicting:
        bounds = f"{low or 1} to {high}" if high is not None else f"at least {low or 1}"
        allowed = bounds if multiple == 1 else f"{bounds}, multiples of {multiple}"
        place = (*path, "include", index)
        reporter.bad_value(place, f"`include` has {size}, which is outside the bounds of `{name}` ({allowed}).")
    if contradicting:
        return None
    smallest = max(low or 1, multiple)
    if high is None and smallest > DEFAULT_MAXIMUM:
        high = 2 * smallest  # the default upper bound would leave nothing to choose
    return DimSpec(name, low, high, include, multiple)


def _fits(size: int, bounds: Mapping[str, Any]) -> bool:
    fits: bool = bounds.get("min", 1) <= size <= bounds.get("max", size)
    return fits and size % bounds.get("multiple_of", 1) == 0
