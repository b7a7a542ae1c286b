"""The registers of a block's warps (``setmaxnreg``, PTX ISA section 9.7.19.5), which share those of its launch."""

from __future__ import annotations

from typing import Final

from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.async_order.traffic import EventCaller
from gpuemu_lsp.engine.emulator.launch.state import Incident, PreparedLaunch
from gpuemu_lsp.engine.ptx.model import Immediate

RULE: Final = "sync/register-pool"

_GROUP = 4
"""Warps of a warp group."""


class RegisterPool:
    """Follows the number of registers of each warp.

    A block has the registers that its threads begin with. An increase waits until other warps have given back enough:
    if all warps that change theirs ask for more than the block has, the last increase waits forever. Warps that never
    do are left out, as they give back theirs when they exit.
    """

    def __init__(self, prepared: PreparedLaunch) -> None:
        self._prepared = prepared
        self._warps: dict[int, dict[int, tuple[int, int]]] = {}

    def change(self, caller: EventCaller) -> None:
        """Record a ``setmaxnreg`` of a warp."""
        instruction = self._prepared.kernel.sites[caller.site][0]
        operand = instruction.operands[0] if instruction is not None else None
        if isinstance(operand, Immediate):
            self._warps.setdefault(caller.block, {})[caller.warp] = (operand.bits, caller.site)

    @property
    def _at_entry(self) -> int:
        """Registers of a thread when the kernel starts, 0 if the instruction has no effect."""
        program, artifact = self._prepared.kernel.program, self._prepared.request.artifact
        # Without a bound ptxas ignores the instruction: "unable to determine register count at entry".
        if not program.entry_registers:
            return 0
        resources = artifact.resources.get(program.name)
        # They are allocated in eights: 256 of a thread of which code uses 255.
        return -(-resources.registers // 8) * 8 if resources is not None else program.entry_registers

    def faults(self) -> list[Incident]:
        """Return what would wait forever, and warp groups of which not all warps change their registers alike."""
        found: list[Incident] = []
        at_entry = self._at_entry
        if not at_entry:
            return found
        count = self._prepared.warp_count
        pool = at_entry * WARP_SIZE * count
        for block, warps in self._warps.items():
            wanted = sum(value for value, _ in warps.values()) * WARP_SIZE
            if wanted > pool:
                warp, (_, site) = max(warps.items(), key=lambda one: one[1][0])
                text = (
                    f"the warps of this block ask for {wanted} registers in all, and it has {pool}: {at_entry} for "
                    f"each of {WARP_SIZE * count} threads at its start; this `setmaxnreg.inc` waits forever"
                )
                found.append(Incident(RULE, text, site, warp * WARP_SIZE, block))
            found += self._divergent(block, warps)
        return found

    def _divergent(self, block: int, warps: dict[int, tuple[int, int]]) -> list[Incident]:
        groups = sorted({warp // _GROUP for warp in warps})
        result = []
        for group in groups:
            members = range(group * _GROUP, min((group + 1) * _GROUP, self._prepared.warp_count))
            values = {warps[one][0] if one in warps else None for one in members}
            if len(values) > 1:
                warp = next(one for one in members if one in warps)
                text = "the warps of this warp group do not all execute the same `setmaxnreg`: its result is undefined"
                result.append(Incident(RULE, text, warps[warp][1], warp * WARP_SIZE, block))
        return result
