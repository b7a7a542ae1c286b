"""``[kernels.launch]``: checked against the limits of all devices before anything is compiled."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from gpuemu_lsp.engine.project.expressions import Expression, constant
from gpuemu_lsp.engine.project.model import LaunchSpec
from gpuemu_lsp.engine.project.reporter import Reporter
from gpuemu_lsp.engine.project.tree import Path

# CUDA C++ Programming Guide, "Technical Specifications per Compute Capability"; the same for 5.0 and all later ones.
_MAX_GRID = (2**31 - 1, 65535, 65535)
_MAX_BLOCK = (1024, 1024, 64)
_MAX_THREADS = 1024

# The same table: "Maximum amount of shared memory per thread block", in KiB, by compute capability.
_SHARED_KIB = {
    "70": 96,
    "72": 96,
    "75": 64,
    "80": 163,
    "86": 99,
    "87": 163,
    "89": 99,
    "90": 227,
    "100": 227,
    "101": 227,
    "103": 227,
    "120": 99,
    "121": 99,
}
_LARGEST_SHARED_KIB = 227


def build_launch(checked: Mapping[str, Any], arch: tuple[str, ...], path: Path, reporter: Reporter) -> LaunchSpec:
    """Build the launch from its checked values; report constants beyond the limits of the hardware."""
    launch = LaunchSpec(checked.get("grid"), checked.get("block"), checked.get("shared"))
    launch = replace(launch, num_warps=checked.get("num_warps", ()), num_stages=checked.get("num_stages", ()))
    for index, warps in enumerate(launch.num_warps):
        if warps & (warps - 1):
            reporter.bad_value((*path, "num_warps", index), f"`num_warps` is {warps}; it must be a power of two.")
    _check_extent(launch.grid, _MAX_GRID, (*path, "grid"), reporter)
    if _check_extent(launch.block, _MAX_BLOCK, (*path, "block"), reporter):
        _check_threads(launch.block or (), (*path, "block"), reporter)
    if launch.shared is not None:
        _check_shared(launch.shared, arch, (*path, "shared"), reporter)
    return launch


def launch_expressions(launch: LaunchSpec, path: Path) -> Iterator[tuple[Path, Expression]]:
    """Yield the expressions of the launch with their paths."""
    for name, items in (("grid", launch.grid), ("block", launch.block)):
        for index, item in enumerate(items or ()):
            yield (*path, name, index), item
    if launch.shared is not None:
        yield (*path, "shared"), launch.shared


def _check_extent(
    items: tuple[Expression, ...] | None, limits: tuple[int, int, int], path: Path, reporter: Reporter
) -> bool:
    fits = True
    for index, (item, limit) in enumerate(zip(items or (), limits, strict=False)):
        value = constant(item)
        if value is not None and value > limit:
            axis = "xyz"[index]
            reporter.bad_value(
                (*path, index), f"`{path[-1]}` has {axis} = {value}; the limit of all devices is {limit}."
            )
            fits = False
    return fits


def _check_threads(block: tuple[Expression, ...], path: Path, reporter: Reporter) -> None:
    sizes = [constant(item) for item in block]
    known = [size for size in sizes if size is not None]
    threads = math.prod(known)
    if threads > _MAX_THREADS:
        at_least = "" if len(known) == len(sizes) else "at least "
        message = f"`block` has {at_least}{threads} threads; the limit of all devices is {_MAX_THREADS}."
        reporter.bad_value(path, message)


def _check_shared(shared: Expression, arch: tuple[str, ...], path: Path, reporter: Reporter) -> None:
    size = constant(shared)
    if size is None:
        return
    for name in arch:
        limit = 1024 * _SHARED_KIB.get(name.removeprefix("sm_").rstrip("af"), _LARGEST_SHARED_KIB)
        if size > limit:
            message = f"`shared` is {size} bytes; the limit per block of {name} is {limit}."
            reporter.bad_value(path, f"{message} Reduce it, or set `arch` to an architecture with more shared memory.")
            return
