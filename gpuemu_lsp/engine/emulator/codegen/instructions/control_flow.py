"""ControlFlow flow of a warp: edges between blocks, branches, and waiting for other lanes of the warp.

A block whose lanes cannot have parted branches directly. Elsewhere an edge costs one comparison: is anybody waiting at
or before its target?
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, store_field
from gpuemu_lsp.engine.emulator.abi.states import EXITED_PC, EventKind, Status
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.core.dispatch import Dispatcher
from gpuemu_lsp.engine.emulator.codegen.core.instrumentation import cover_lanes, cover_uniform
from gpuemu_lsp.engine.emulator.codegen.instructions.arithmetic import predicate_parts, predicate_scalar
from gpuemu_lsp.engine.emulator.codegen.instructions.barriers import emit_barrier
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.ir.opcodes import is_collective
from gpuemu_lsp.engine.emulator.ir.program import EXIT, BarrierSync, Branch, Jump, RecursiveCall, Return, Switch, Trap
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, Value, i32


class ControlFlow(Dispatcher):
    """Writes everything of one function that is not straight-line code."""

    # ---- edges -------------------------------------------------------------------------------------------------------

    def edge(self, number: int, target: int) -> ir.Block:
        """Return the block to branch to for the edge from block ``number`` to ``target``."""
        divergent = number in self.unit.divergence.divergent
        if target == EXIT:
            return self.exit_lanes() if divergent else self.exit_warp()
        counted = (number, target) in self.unit.graph.back_edges
        must_look = divergent and not self._alone(number, target)
        if not counted and not must_look:
            return self.entries[target]
        e, b = self.e, self.e.builder
        here = b.block
        block = e.append_block()
        b.position_at_end(block)
        if counted:
            left = b.sub(b.load(self.budget_slot, typ=I32), i32(1))
            b.store(left, self.budget_slot)
            go_on = e.append_block()
            b.cbranch(b.icmp_signed(">", left, i32(0)), go_on, self.yield_at(target, divergent)).set_weights([2000, 1])
            b.position_at_end(go_on)
        if not must_look:
            b.branch(self.entries[target])
        elif self.scalar_pc:
            b.branch(self.wait_at(target))
        else:
            # No lanes wait below or at the target: they would have run first, or must be joined.
            clear = b.icmp_unsigned("<", i32(target), b.load(self.lowest_waiting_slot, typ=I32))
            b.cbranch(clear, self.entries[target], self.wait_at(target)).set_weights([100, 1])
        b.position_at_end(here)
        return block

    def _alone(self, number: int, target: int) -> bool:
        """Whether nobody can be waiting at or before ``target``: its only predecessor just goes on to it."""
        block = self.unit.program.blocks[target]
        if not isinstance(self.unit.program.blocks[number].terminator, Jump):
            return False  # lanes that left a loop in another round may wait there
        if target != number + 1 or self.unit.graph.predecessors[target] != (number,):
            return False
        return not (
            self.scalar_pc
            and (isinstance(block.terminator, BarrierSync) or (block.code and is_collective(block.code[0])))
        )

    # ---- ends of blocks ----------------------------------------------------------------------------------------------

    def emit_end(self, number: int) -> None:
        """Write the end of the current block."""
        end = self.unit.program.blocks[number].terminator
        b = self.e.builder
        match end:
            case Jump(target):
                b.branch(self.edge(number, target))
            case Branch():
                self._branch(number, end)
            case Switch():
                self._switch(number, end)
            case BarrierSync():
                emit_barrier(self, end)
            case Trap():
                self.stop()
            case RecursiveCall(callee):
                b.branch(self.wait_at(callee))
            case Return():
                raise AssertionError("the place to return to is not known here")

    def go_to(self, counters: Sequence[Value]) -> None:
        """Send each running lane to a block of its own, given as one vector per part."""
        for part, counter in enumerate(counters):
            self._set_pc(self.e.block_number, part, counter)
        self.e.builder.branch(self.dispatch_block())

    def stop(self) -> None:
        """End the launch at the current instruction."""
        e, b = self.e, self.e.builder
        store_field(b, i32(e.site), e.context, Warp.STOP_SITE)
        lanes = e.active_mask()
        first = t.intrinsic(b, "llvm.cttz.i32", I32, [lanes, ir.Constant(I1, 0)])
        arguments = [e.context, i32(e.site), i32(EventKind.STOP), b.and_(first, i32(31)), t.i64(0), i32(0), i32(0)]
        t.call_address(b, DEVICE_LIBRARY.address("record_event"), t.VOID, arguments)
        self.leave(Status.STOP)

    def _branch(self, number: int, end: Branch) -> None:
        e, b = self.e, self.e.builder
        guard = end.guard
        if e.shape(guard.register).uniform:
            condition = predicate_scalar(e, guard.register, guard.negated)
            cover_uniform(e, condition)
            b.cbranch(condition, self.edge(number, end.taken), self.edge(number, end.not_taken))
            return
        parts = predicate_parts(e, guard.register, guard.negated)
        cover_lanes(e, parts)
        lanes = e.block_mask()
        taken = b.and_(e.pack(parts), lanes)
        if EXIT in (end.taken, end.not_taken):
            self._leave_some(number, end, taken, lanes)
            return
        every, mixed, split = e.append_block(), e.append_block(), e.append_block()
        b.cbranch(b.icmp_unsigned("==", taken, lanes), every, mixed)
        b.position_at_end(every)
        b.branch(self.edge(number, end.taken))
        b.position_at_end(mixed)
        none = e.append_block()
        b.cbranch(b.icmp_unsigned("==", taken, i32(0)), none, split)
        b.position_at_end(none)
        b.branch(self.edge(number, end.not_taken))
        b.position_at_end(split)
        for part, condition in enumerate(parts):
            self._set_pc(number, part, b.select(condition, self.pc_vector(end.taken), self.pc_vector(end.not_taken)))
        if number in self.unit.speculated_uniform:
            b.branch(self.misspeculated())
            return
        if number in self.unit.divergence.divergent_loop_branches:
            table = e.launch(LaunchRecord.DIVERGENCE_COUNTS)
            t.store(b, b.add(t.load(b, table, 4 * number, I32), i32(1)), table, 4 * number)
        self.dispatch_targets.update((end.taken, end.not_taken))
        b.branch(self.dispatch_block())

    def _set_pc(self, number: int, part: int, value: Value) -> None:
        """Set the program counters of the running lanes; those of ended lanes say so."""
        e, b = self.e, self.e.builder
        if number in self.unit.divergence.divergent:
            running = e.unpack(e.block_mask(), part)
            value = b.select(running, value, self.load_pcs(part))
        elif number in self.unit.divergence.partial:
            value = b.select(e.unpack(e.block_mask(), part), value, self.pc_vector(EXITED_PC))
        self.store_pcs(part, value)

    def _leave_some(self, number: int, end: Branch, taken: Value, lanes: Value) -> None:
        """Branch where one side ends the thread: the other lanes simply go on."""
        e, b = self.e, self.e.builder
        target = end.not_taken if end.taken == EXIT else end.taken
        leaving = taken if end.taken == EXIT else b.and_(lanes, b.not_(taken))
        staying = b.and_(lanes, b.not_(leaving))
        go_on, gone = e.append_block(), self.edge(number, EXIT)
        b.cbranch(b.icmp_unsigned("==", staying, i32(0)), gone, go_on)
        b.position_at_end(go_on)
        b.store(staying, e.block_mask_slot)
        if number in self.unit.divergence.divergent:
            b.store(b.and_(b.load(e.live_mask_slot, typ=I32), b.not_(leaving)), e.live_mask_slot)
            for part in range(e.parts):
                left = e.unpack(leaving, part)
                self.store_pcs(part, b.select(left, self.pc_vector(EXITED_PC), self.load_pcs(part)))
        else:
            b.store(staying, e.live_mask_slot)
            self.exit_all_but(staying)
        e.invalidate_masks()
        b.branch(self.edge(number, target))

    def _switch(self, number: int, end: Switch) -> None:
        e, b = self.e, self.e.builder
        if not end.targets:
            self.stop()
            return
        if e.shape(end.index).uniform:
            index = e.scalar_operand(end.index, "b32", 0)
            switch = b.switch(index, self.edge(number, end.targets[-1]))
            for value, target in enumerate(end.targets[:-1]):
                switch.add_case(i32(value), self.edge(number, target))
            return
        for part in range(e.parts):
            index = e.vector_operand(end.index, "b32", part)
            pc = self.pc_vector(_number(end.targets[-1]))
            for value, target in enumerate(end.targets[:-1]):
                pc = b.select(b.icmp_unsigned("==", index, self.pc_vector(value)), self.pc_vector(_number(target)), pc)
            self._set_pc(number, part, pc)
        self.dispatch_targets.update(target for target in end.targets if target != EXIT)
        b.branch(self.dispatch_block())

    # ---- waiting for lanes of the warp -------------------------------------------------------------------------------

    def wait_for_members(self, number: int, members: Value) -> None:
        """Let a collective go on only when all living lanes that ``members`` (bits) names have come."""
        e, b = self.e, self.e.builder
        if not e.divergent:
            return
        lanes = e.block_mask()
        missing = b.and_(b.and_(members, b.load(e.live_mask_slot, typ=I32)), b.not_(lanes))
        incomplete = b.icmp_unsigned("!=", missing, i32(0))
        go_on = e.append_block()
        if not self.scalar_pc:
            b.cbranch(incomplete, self.diverged_at(number), go_on)
            b.position_at_end(go_on)
            return
        wait = e.append_block("gather")
        forced = load_field(b, e.context, Warp.FORCE_COLLECTIVE)
        b.cbranch(b.and_(incomplete, b.icmp_unsigned("==", forced, i32(0))), wait, go_on)
        b.position_at_end(wait)
        old = load_field(b, e.context, Warp.COLLECTIVE_MASK)
        store_field(b, b.or_(old, lanes), e.context, Warp.COLLECTIVE_MASK)
        store_field(b, i32(e.site), e.context, Warp.STOP_SITE)
        b.branch(self.dispatch_block())
        b.position_at_end(go_on)
        old = load_field(b, e.context, Warp.COLLECTIVE_MASK)
        store_field(b, b.and_(old, b.not_(lanes)), e.context, Warp.COLLECTIVE_MASK)
        store_field(b, i32(0), e.context, Warp.FORCE_COLLECTIVE)


def _number(target: int) -> int:
    return EXITED_PC if target == EXIT else target
