"""Checks of ``mbarrier`` objects: misuse, and what a thread that hangs waits for."""

from __future__ import annotations

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.emulator.devicelib.mbarrier import OPERATIONS, is_over
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.async_order.arrivals import BarrierObject, operation_fault, shortfall
from gpuemu_lsp.engine.emulator.launch.async_order.traffic import (
    MISUSE,
    UNINITIALISED,
    EventCaller,
    SharedTraffic,
)
from gpuemu_lsp.engine.emulator.launch.state import Incident


class BarrierChecks:
    """Follows the ``mbarrier`` objects of a launch."""

    def __init__(self, shared: SharedTraffic) -> None:
        self._shared = shared

    def operate(self, caller: EventCaller, operation: int) -> None:
        """Check and record an operation other than a wait, before it is executed."""
        rows = zip(caller.values(0), caller.values(1), caller.values(2), strict=True)
        for index, (address, operand, transactions) in enumerate(rows):
            block = self._shared.block(self._shared.owner(address, caller))
            state = self._shared.state(address)
            one = block.barriers.get(address)
            if one is not None:
                one.follow(state)
                if operation == OPERATIONS["init"] and one.initialised_alike(
                    caller.site, operand, caller.thread(index)
                ):
                    one.threads.add(caller.thread(index))
                    continue
            fault = operation_fault(one, operation, state, operand)
            if fault is not None:
                self._shared.explain(caller.site)
                self._shared.add(caller, MISUSE if one else UNINITIALISED, fault, one.site if one else None)
            if operation == OPERATIONS["init"]:
                block.barriers[address] = BarrierObject(caller.site, operand, threads={caller.thread(index)})
            elif one is None:
                continue
            elif operation == OPERATIONS["inval"]:
                one.valid, one.site = False, caller.site
            else:
                one.used = True
                one.expected_bytes += transactions
                if operation in (OPERATIONS["arrive"], OPERATIONS["arrive_drop"]):
                    one.arrived[caller.block, caller.thread(index)] = caller.site
                    self._carry(one, caller)

    def _carry(self, one: BarrierObject, caller: EventCaller) -> None:
        name = (caller.block, caller.warp >> 2)
        group = self._shared.block(caller.block).groups.get(caller.warp >> 2)
        if group is not None:
            issued, completed = one.carried.get(name, (0, 0))
            one.carried[name] = (max(issued, group.issued.get(caller.warp, 0)), max(completed, group.completed))

    def arrive(self, block: int, address: int, thread: tuple[int, int], site: int) -> str | None:
        """Record the arrival of a commit of ``tcgen05`` by a thread at an object; return what is wrong with it."""
        one = self._shared.block(block).barriers.get(address)
        state = self._shared.state(address)
        if one is not None:
            one.follow(state)
            one.used = True
        fault = operation_fault(one, OPERATIONS["arrive"], state, 1)
        if one is not None:
            one.arrived[thread] = site
        return fault

    def before_test(self, caller: EventCaller, *, by_parity: bool) -> None:
        """Follow the objects that are tested, before copies arrive at them."""
        block = self._shared.block(caller.block)
        for address in set(caller.values(0)):
            one = block.barriers.get(address)
            if one is not None:
                one.follow(self._shared.state(address))

    def after_test(self, caller: EventCaller, *, by_parity: bool) -> None:
        """Record which of the tested phases are over, and which are waited for."""
        block = self._shared.block(caller.block)
        seen = set()
        for address, operand in zip(caller.values(0), caller.values(1), strict=True):
            if (address, operand) in seen:
                continue
            seen.add((address, operand))
            one = block.barriers.get(address)
            if one is None or not one.valid:
                if self._shared.arena.contains(address, 8):
                    self._shared.explain(caller.site)
                    what = "was never initialised" if one is None else "has been invalidated by `mbarrier.inval`"
                    text = f"this waits for an mbarrier that {what}"
                    self._shared.add(caller, MISUSE if one else UNINITIALISED, text, one.site if one else None)
                continue
            one.used = True
            state = self._shared.state(address)
            one.follow(state)
            if not is_over(state, operand, by_parity=by_parity):
                one.waiting[caller.warp] = caller.site
                continue
            one.waiting.pop(caller.warp, None)
            last, times = one.passed.get(caller.warp, (-1, 0))
            ended = one.phase - 1
            one.passed[caller.warp] = (ended, times + 1 if last == ended else 1)
            for group, carried in one.ended.items():
                block.known[caller.warp, group] = carried

    def waits(self) -> list[Incident]:
        """Return what warps wait for that never comes, one incident for each instruction."""
        found: dict[int, Incident] = {}
        for number, block in self._shared.blocks.items():
            for address, one in block.barriers.items():
                state = self._shared.state(address)
                for warp, site in one.waiting.items():
                    text = (
                        f"this waits for phase {one.phase} of the mbarrier at {self._shared.barrier_place(address)}, "
                        f"which does not complete: {shortfall(one, state, number)}"
                    )
                    thread, cause = warp * WARP_SIZE, Cause.ENDLESS_WAIT
                    found.setdefault(site, Incident("sync/hang", text, site, thread, number, one.site, cause=cause))
        return list(found.values())
