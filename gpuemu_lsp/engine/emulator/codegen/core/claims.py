"""Claims of memory by accesses of blocks that are executed side by side: calls before the access."""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.codegen.core.addresses import LoadStore, address_scalar
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.library_access import store_addresses
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, i32


def claim_access(e: Emitter, access: LoadStore) -> None:
    """Claim what a load or store accesses, if it has to."""
    if e.site not in e.unit.claims.sites:
        return
    b, shape, lanes = e.builder, access.shape, e.active_mask()
    if not shape.varying and not shape.per_part and shape.step in (0, access.total):
        if not shape.step:
            # One address: one lane is enough.
            lanes = b.zext(b.icmp_unsigned("!=", lanes, i32(0)), I32)
        arguments = [e.context, lanes, address_scalar(e, access.address, 0), i32(access.total)]
        t.call_address(b, DEVICE_LIBRARY.address("claim_row"), t.VOID, arguments)
    else:
        store_addresses(e, access, range(e.parts))
        claim_lanes(e, access.total)


def claim_lanes(e: Emitter, size: int) -> None:
    """Claim ``size`` bytes at the address of each active lane in the scratch space, if the current access has to."""
    if e.site in e.unit.claims.sites:
        arguments = [e.context, e.active_mask(), i32(size)]
        t.call_address(e.builder, DEVICE_LIBRARY.address("claim_lanes"), t.VOID, arguments)
