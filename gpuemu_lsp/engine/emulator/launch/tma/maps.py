"""Tensor maps in the memory of a launch: those that copies read, and those that the kernel changes."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, TypeAlias

import numpy as np

from gpuemu_lsp.engine.emulator.abi.memory import READABLE, Shadow
from gpuemu_lsp.engine.emulator.codegen.instructions.bulk_copy import RANK_SHIFT, REDUCTION_SHIFT
from gpuemu_lsp.engine.emulator.launch.state import PreparedLaunch
from gpuemu_lsp.engine.emulator.launch.tma.targets import CopyIssuer
from gpuemu_lsp.engine.tensor_map import MAP_BYTES, MAP_FIELDS, TensorMap, raw_map, replaced, tensor_map_problem

UNSUPPORTED: Final = "engine/unsupported-instruction"
INVALID: Final = "memory/tensor-map"
FENCE: Final = "sync/map-fence"

Reporter: TypeAlias = "Callable[[CopyIssuer, str, str, int | None], None]"
"""Called with an issuer, a rule, a message, and the site of a second instruction if there is one."""

_MAP_ALIGNMENT = 128
"""Alignment in bytes of a map that ``tensormap.replace`` changes, or ``cp_fenceproxy`` copies."""

# A kernel has few maps, which its copies read again and again.
_decoded, _problem = lru_cache(maxsize=64)(raw_map), lru_cache(maxsize=64)(tensor_map_problem)


class TensorMaps:
    """Reads, changes and copies the tensor maps of one launch.

    A copy sees what a thread has written to a map after a ``fence.proxy.tensormap`` with acquire semantics that names
    it (PTX ISA section 9.7.13.5). The fence may be of any thread: barriers make it count for the others, and whether
    there is one is not checked. ``unknown`` says that a copy was given 128 bytes that are not a map: a map of the
    program that was not given for the launch.
    """

    def __init__(self, prepared: PreparedLaunch, report: Reporter) -> None:
        self._arena, self._report = prepared.arena, report
        self._changed: dict[int, int] = {}
        self._fenced: set[int] = set()
        self._broken = False
        self.unknown = False

    def find(self, address: int, rank: int, issuer: CopyIssuer) -> TensorMap | None:
        """Return the map that a copy of some coordinates names, None after a report."""
        known = self._arena.contains(address, MAP_BYTES)
        tensor = _decoded(bytes(self._arena.data(address, MAP_BYTES))) if known else None
        if tensor is None and self._broken:
            # A consequence of what the kernel did, which has been reported.
            return None
        if tensor is None:
            self.unknown = True
            text = "the argument of this copy is not a tensor map that was given for the launch"
            self._report(issuer, UNSUPPORTED, text, None)
            return None
        problem = _problem(tensor)
        if problem is not None:
            text = f"the tensor map of this copy is not valid: {problem}"
            self._report(issuer, INVALID, text, self._changed.get(address))
            return None
        if tensor.interleave:
            self.unknown = True
            self._report(issuer, UNSUPPORTED, "copies by tensor maps with an interleaved layout cannot be run", None)
            return None
        if tensor.rank != rank:
            text = f"the copy has {rank} coordinates, the tensor map {tensor.rank} dimensions"
            self._report(issuer, "memory/out-of-bounds", text, None)
            return None
        self._check_fenced(address, issuer)
        return tensor

    def _check_fenced(self, address: int, issuer: CopyIssuer) -> None:
        site = self._changed.get(address)
        stored = address not in self._fenced and (self._arena.shadow(address, MAP_BYTES) & Shadow.WRITTEN).any()
        if site is None and not stored:
            return
        text = (
            "the tensor map of this copy has been written by the kernel, with no "
            "`fence.proxy.tensormap::generic.acquire` of its address since: the copy may use what it held before"
        )
        self._report(issuer, FENCE, text, site)

    def replace(self, which: int, values: list[int], issuer: CopyIssuer) -> None:
        """Execute a ``tensormap.replace``: the address of the map, and the new value of a field."""
        address, value = values[:2]
        field = MAP_FIELDS[which >> RANK_SHIFT & 15]
        if not self._accessible(address, issuer, store=True):
            self._broken = True
            return
        data = self._arena.data(address, MAP_BYTES)
        shadow = self._arena.shadow(address, MAP_BYTES)
        new = replaced(bytes(data), field, which >> REDUCTION_SHIFT & 15, value)
        if new is None or not (shadow & Shadow.INITIALISED).all():
            text = "this changes a field of 128 bytes that hold no tensor map, nor zeros"
            self._report(issuer, INVALID, text, None)
            self._broken = True
            return
        self._write(address, np.frombuffer(new, dtype=np.uint8), issuer.site)

    def copy(self, values: list[int], issuer: CopyIssuer) -> None:
        """Execute a ``tensormap.cp_fenceproxy``: target and source."""
        target, source = values[:2]
        if self._accessible(target, issuer, store=True) and self._accessible(source, issuer, store=False):
            if not (self._arena.shadow(source, MAP_BYTES) & READABLE == READABLE).all():
                text = "this copies 128 bytes of which some were never written"
                self._report(issuer, "memory/uninitialized-read", text, None)
            self._write(target, self._arena.data(source, MAP_BYTES).copy(), issuer.site)

    def fence(self, values: list[int]) -> None:
        """Make what has been written to a map visible to copies."""
        self._changed.pop(values[0], None)
        self._fenced.add(values[0])

    def _write(self, address: int, data: np.ndarray, site: int) -> None:
        self._arena.data(address, MAP_BYTES)[:] = data
        self._arena.shadow(address, MAP_BYTES)[:] |= Shadow.INITIALISED | Shadow.WRITTEN
        self._changed[address] = site

    def _accessible(self, address: int, issuer: CopyIssuer, *, store: bool) -> bool:
        if address % _MAP_ALIGNMENT:
            text = f"the address of a tensor map is a multiple of {_MAP_ALIGNMENT} bytes"
            self._report(issuer, "memory/misaligned", text, None)
            return False
        forbidden = Shadow.READ_ONLY if store else 0
        inside = self._arena.contains(address, MAP_BYTES)
        shadow = self._arena.shadow(address, MAP_BYTES) if inside else np.zeros(1, np.uint8)
        if not (shadow & (Shadow.ADDRESSABLE | forbidden) == Shadow.ADDRESSABLE).all():
            text = "the 128 bytes of this tensor map are not all in memory"
            self._report(issuer, "memory/out-of-bounds", text + (" that may be written" if store else ""), None)
            return False
        return True
