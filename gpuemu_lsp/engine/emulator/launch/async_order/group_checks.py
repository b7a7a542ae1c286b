"""Checks of ``wgmma``: registers, operands in shared memory, descriptors."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.frontend.group_registers import RegisterFault
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.async_order.operand_checks import OperandChecks
from gpuemu_lsp.engine.emulator.launch.async_order.operands import decoded, operand_bytes, warp_runs
from gpuemu_lsp.engine.emulator.launch.async_order.products import (
    Product,
    WarpGroup,
    made_product,
    product_steps,
    step_fault,
)
from gpuemu_lsp.engine.emulator.launch.async_order.traffic import LAYOUT, ORDER, EventCaller, SharedTraffic
from gpuemu_lsp.engine.emulator.launch.state import Incident
from gpuemu_lsp.engine.emulator.launch.tma.races import AsyncKind
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction

_REGISTER_FAULTS: Final = {
    RegisterFault.READ_BEFORE_WAIT: "this accesses an accumulator of a wgmma in flight: no `wgmma.wait_group` that "
    "covers its group precedes",
    RegisterFault.READ_UNCOMMITTED: "this accesses an accumulator of a wgmma in flight that is in no group: "
    "`wgmma.commit_group` is missing, without which `wgmma.wait_group` does not wait for it",
    RegisterFault.NO_FENCE: "no `wgmma.fence` precedes this first wgmma: its registers may not have been written yet",
    RegisterFault.CHANGED_WITHOUT_FENCE: "registers of this wgmma have been written since the last `wgmma.fence`: the "
    "product may read what they held before",
}

_WAITS: Final = (RegisterFault.READ_BEFORE_WAIT, RegisterFault.READ_UNCOMMITTED)
"""Faults whose other party is a product in flight."""

_GROUP_THREADS: Final = 4 * WARP_SIZE


class GroupChecks:
    """Checks the products of a launch's warp groups."""

    def __init__(self, shared: SharedTraffic) -> None:
        self._shared, self._operands = shared, OperandChecks(shared)

    def event(self, caller: EventCaller) -> None:
        """Follow an event of a warp group."""
        instruction = self._shared.sites[caller.site][0]
        assert instruction is not None
        groups = self._shared.block(caller.block).groups
        group = groups.get(caller.warp >> 2)
        if group is None:
            group = groups[caller.warp >> 2] = WarpGroup()
        kind = instruction.modifiers[0]
        if kind == "fault":
            following = self._shared.sites[caller.site + 1][0]
            message = _REGISTER_FAULTS[RegisterFault(int(instruction.modifiers[1]))]
            name = f"`{following.name}`: " if following is not None and following.opcode[0] != "%" else ""
            waited = RegisterFault(int(instruction.modifiers[1])) in _WAITS and group.flying
            self._shared.add(caller, ORDER, name + message, group.flying[-1].site if waited else None)
        elif kind == "mma_async":
            self._product(caller, group, instruction)
        elif kind == "commit_group":
            group.committed[caller.warp] = group.committed.get(caller.warp, 0) + 1
        elif kind == "wait_group":
            operand = instruction.operands[0] if instruction.operands else None
            self._check_overwritten(caller.block, caller.window, caller.warp >> 2, group)
            group.wait(caller.warp, operand.bits if isinstance(operand, Immediate) else 0)
            self._completed(caller, group)

    def check_overwritten(self, block: int, window: int) -> None:
        """Report products in flight whose operands threads have written since; ``window`` is the block's memory."""
        for number, group in self._shared.block(block).groups.items():
            self._check_overwritten(block, window, number, group)

    def _check_overwritten(self, block: int, window: int, number: int, group: WarpGroup) -> None:
        # A barrier of the block orders nothing after the product, so that the race detector, to which the product has
        # read its tiles when it was issued, sees no race where one is in between.
        if not group.flying or not self._shared.has_stores(window):
            return
        for product in group.flying:
            for name, chunks in zip("AB", product.operands, strict=True):
                if not product.fenced or chunks is None:
                    continue
                places = operand_bytes(chunks).places
                if self._shared.bits(window, places, Shadow.WRITTEN):
                    text = (
                        f"threads write to operand {name} before `wgmma.wait_group`, while this product may still read"
                    )
                    thread = number * _GROUP_THREADS
                    other = self._shared.writer(window, places)
                    found = Incident(ORDER, f"{text} it", product.site, thread, block, other, unless_racing=True)
                    self._shared.incidents.append(found)

    def _completed(self, caller: EventCaller, group: WarpGroup) -> None:
        """Let a warp come after the reads of the products that it has waited for."""
        races = self._shared.races
        if races.active:
            until = group.reads_until
            until = races.next_epoch(caller.context) if until is None else until
            number = races.number(AsyncKind.PRODUCT, caller.block, caller.warp >> 2)
            races.learn(caller.context, caller.lanes, number, until)

    def _record(self, caller: EventCaller, product: Product, *, first: bool) -> None:
        """Record what a warp's share of a product reads; ``first`` if it is the first of its warp group."""
        order = self._shared.races.order(caller.context, caller.lanes[0], whole_warp=True)
        if order is None:
            return
        self._shared.races.access(
            AsyncKind.PRODUCT,
            order,
            caller.context,
            caller.site,
            warp_runs(*product.operands, caller.warp % 4),
            product.epoch,
            start=caller.window,
            block=caller.block,
            lane=caller.warp >> 2,
            sampled=not first,
        )

    def _product(self, caller: EventCaller, group: WarpGroup, instruction: Instruction) -> None:
        rows = [caller.value(row) for row in range(2)]
        number = group.issued.get(caller.warp, 0)
        group.issued[caller.warp] = number + 1
        for name, row in zip("AB", rows, strict=True):
            if row is None:
                self._shared.add(caller, LAYOUT, f"the descriptor of {name} differs between the threads of a warp")
                return
        descriptors = (rows[0] or 0, rows[1] or 0)
        if number < group.count:
            first = group.products[max(number - group.first, 0)]
            if first.site != caller.site:
                return
            if first.descriptors == descriptors:
                self._record(caller, first, first=False)
            else:
                self._compare(caller, first, descriptors)
            return
        races = self._shared.races
        epoch = races.next_epoch(caller.context) if races.active else 0
        product = made_product(caller.site, instruction, descriptors, group.committed.get(caller.warp, 0), epoch)
        block = self._shared.block(caller.block)
        shared = block.tiles
        sound, fenced = True, True
        for name, chunks, bits in zip("AB", product.operands, descriptors, strict=True):
            if chunks is not None:
                readable, stored = self._operands.check(caller, f"operand {name}", chunks, decoded(bits).swizzle, block)
                sound, fenced = sound and readable, fenced and not stored
        if not fenced:
            product = replace(product, fenced=False)
        group.products.append(product)
        if sound:
            self._record(caller, product, first=True)
        steps = product_steps(product, shared) if sound else None
        fault = step_fault(steps, group.steps) if steps is not None else None
        group.steps = steps
        if fault is not None:
            self._shared.add(caller, LAYOUT, fault[0], fault[1].site)

    def _compare(self, caller: EventCaller, first: Product, descriptors: tuple[int, int]) -> None:
        for name, own, other in zip("AB", descriptors, first.descriptors, strict=True):
            if own != other:
                text = (
                    f"the descriptor of {name} differs in the warp group: warp {caller.warp} has {own:#x}, the warp "
                    f"that came first {other:#x}; all four warps must give the same"
                )
                self._shared.explain(caller.site)
                self._shared.add(caller, LAYOUT, text)
                return
