"""Claims of memory by accesses of blocks that are executed side by side: calls before the access."""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.codegen.core.addresses import LoadStore, address_scalar, part_mask
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.library_access import store_addresses
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, i32, i64
from gpuemu_lsp.engine.ptx.model import Register


def claim_access(e: Emitter, access: LoadStore) -> None:
    """Claim what a load or store accesses, if it has to."""
    if e.site not in e.unit.claims.sites:
        return
    base = access.address.base
    if isinstance(base, Register) and base.name in e.unit.program.registers and not e.is_guarded:
        # Once for all accesses to the same bytes, until the register changes or another basic block begins.
        e.derived(base.name, ("claimed", access.address.offset, access.total), lambda: _claim(e, access))
    else:
        _claim(e, access)


def _claim(e: Emitter, access: LoadStore) -> bool:
    b, shape, lanes = e.builder, access.shape, e.active_mask()
    if shape.varying or shape.step not in (0, access.total):
        store_addresses(e, access, range(e.parts))
        claim_lanes(e, access.total)
        return True
    rows = [[part] for part in range(e.parts)] if shape.per_part else [range(e.parts)]
    for parts in rows:
        row_lanes = b.and_(lanes, i32(part_mask(e, parts))) if len(rows) > 1 else lanes
        start = address_scalar(e, access.address, parts[0])
        if not shape.step:
            # One address: one lane is enough.
            row_lanes = b.zext(b.icmp_unsigned("!=", row_lanes, i32(0)), I32)
        elif parts[0]:
            # The library counts from lane 0 of the warp.
            start = b.sub(start, i64(parts[0] * e.lanes * access.total))
        arguments = [e.context, row_lanes, start, i32(access.total)]
        t.call_address(b, DEVICE_LIBRARY.address("claim_row"), t.VOID, arguments)
    return True


def claim_lanes(e: Emitter, size: int) -> None:
    """Claim ``size`` bytes at the address of each active lane in the scratch space, if the current access has to."""
    if e.site in e.unit.claims.sites:
        arguments = [e.context, e.active_mask(), i32(size)]
        t.call_address(e.builder, DEVICE_LIBRARY.address("claim_lanes"), t.VOID, arguments)
