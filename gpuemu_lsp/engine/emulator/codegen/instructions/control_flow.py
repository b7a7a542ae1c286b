"""Control flow of a warp: edges between basic blocks, branches, switches, and waits for other lanes of the warp.

An edge out of a convergent block is an LLVM branch. An edge out of a divergent block costs one comparison, with the
lowest block at which other lanes wait: below it, the executing lanes continue; at or above it, they wait too, and the
dispatcher selects again (:mod:`~gpuemu_lsp.engine.emulator.codegen.core.dispatch`).
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
    """Writes the terminators of basic blocks."""

    # ---- edges -------------------------------------------------------------------------------------------------------

    def edge(self, number: int, target: int) -> ir.Block:
        """Return the block to branch to for the edge from block ``number`` to ``target``."""
        divergent = number in self.unit.divergence.divergent
        if target == EXIT:
            return self.exit_lanes() if divergent else self.exit_warp()
        counted = (number, target) in self.unit.graph.back_edges
        may_pass_others = divergent and not self._cannot_reconverge_at(number, target)
        if not counted and not may_pass_others:
            return self.entries[target]
        e, b = self.e, self.e.builder
        origin = b.block
        block = e.append_block()
        b.position_at_end(block)
        if counted:
            # Only back edges: without one a warp ends by itself. The budget bounds endless loops, and gives warps that
            # this one spins for their turn.
            left = b.sub(b.load(self.budget_slot, typ=I32), i32(1))
            b.store(left, self.budget_slot)
            go_on = e.append_block()
            b.cbranch(b.icmp_signed(">", left, i32(0)), go_on, self.yield_at(target, divergent)).set_weights([2000, 1])
            b.position_at_end(go_on)
        if not may_pass_others:
            b.branch(self.entries[target])
        elif self.scalar_pc:
            # Lanes that wait at a barrier do not take part in the order of blocks: always by way of the dispatcher.
            b.branch(self.wait_at(target))
        else:
            # Lanes that wait below the target must execute first, and lanes that wait at it are joined.
            free = b.icmp_unsigned("<", i32(target), b.load(self.lowest_waiting_slot, typ=I32))
            b.cbranch(free, self.entries[target], self.wait_at(target)).set_weights([100, 1])
        b.position_at_end(origin)
        return block

    def _cannot_reconverge_at(self, number: int, target: int) -> bool:
        """Whether no lane can wait at ``target``, or below it, when the lanes of block ``number`` get there."""
        block = self.unit.program.blocks[target]
        if not isinstance(self.unit.program.blocks[number].terminator, Jump):
            # At the target of a branch out of a loop wait the lanes that have left in earlier iterations.
            return False
        # The next block, with no other predecessor: lanes that waited below it would have executed before.
        if target != number + 1 or self.unit.graph.predecessors[target] != (number,):
            return False
        # In the scalar-PC version lanes may also wait at the target itself, for other members of a collective.
        return not (
            self.scalar_pc
            and (isinstance(block.terminator, BarrierSync) or (block.code and is_collective(block.code[0])))
        )

    # ---- terminators -------------------------------------------------------------------------------------------------

    def emit_end(self, number: int) -> None:
        """Write the terminator of the current block."""
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
                self.stop_launch()
            case RecursiveCall(callee):
                b.branch(self.wait_at(callee))
            case Return():
                raise AssertionError("the targets of a return are on the call stack: see jump_to")

    def jump_to(self, pcs: Sequence[Value]) -> None:
        """Continue each executing lane at its own block, given as one vector of program counters per part."""
        for part, pc in enumerate(pcs):
            self._set_pc(self.e.block_number, part, pc)
        self.e.builder.branch(self.dispatch_block())

    def stop_launch(self) -> None:
        """Stop the launch at the current instruction: a trap, or an instruction that is not supported."""
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
            self._exit_some(number, end, taken, lanes)
            return
        # A branch that may diverge mostly does not: the two uniform outcomes leave program counters alone.
        all_taken, mixed, diverged = e.append_block(), e.append_block(), e.append_block()
        b.cbranch(b.icmp_unsigned("==", taken, lanes), all_taken, mixed)
        b.position_at_end(all_taken)
        b.branch(self.edge(number, end.taken))
        b.position_at_end(mixed)
        none_taken = e.append_block()
        b.cbranch(b.icmp_unsigned("==", taken, i32(0)), none_taken, diverged)
        b.position_at_end(none_taken)
        b.branch(self.edge(number, end.not_taken))
        b.position_at_end(diverged)
        for part, condition in enumerate(parts):
            self._set_pc(number, part, b.select(condition, self.pc_vector(end.taken), self.pc_vector(end.not_taken)))
        if number in self.unit.speculated_uniform:
            # The counters are set: the fallback continues behind the branch, with no instruction executed twice.
            b.branch(self.misspeculated())
            return
        if number in self.unit.divergence.divergent_loop_branches:
            # The convergence profile decides from these counts at which branches optimised code speculates.
            table = e.launch(LaunchRecord.DIVERGENCE_COUNTS)
            t.store(b, b.add(t.load(b, table, 4 * number, I32), i32(1)), table, 4 * number)
        self.dispatch_targets.update((end.taken, end.not_taken))
        b.branch(self.dispatch_block())

    def _set_pc(self, number: int, part: int, value: Value) -> None:
        """Set the program counters of the executing lanes of a part."""
        e, b = self.e, self.e.builder
        if number in self.unit.divergence.divergent:
            executing = e.unpack(e.block_mask(), part)
            value = b.select(executing, value, self.load_pcs(part))
        elif number in self.unit.divergence.partial:
            # Convergent blocks do not maintain counters: what is stored for the other lanes is stale, but they have
            # exited. In a block that is not even partial, all 32 lanes get a new counter.
            value = b.select(e.unpack(e.block_mask(), part), value, self.pc_vector(EXITED_PC))
        self.store_pcs(part, value)

    def _exit_some(self, number: int, end: Branch, taken: Value, lanes: Value) -> None:
        """Write a branch one side of which exits, such as ``if (i >= n) return;``: no divergence, the others go on."""
        e, b = self.e, self.e.builder
        target = end.not_taken if end.taken == EXIT else end.taken
        leaving = taken if end.taken == EXIT else b.and_(lanes, b.not_(taken))
        staying = b.and_(lanes, b.not_(leaving))
        go_on, gone = e.append_block(), self.edge(number, EXIT)
        b.cbranch(b.icmp_unsigned("==", staying, i32(0)), gone, go_on)
        b.position_at_end(go_on)
        # From here on the block mask is smaller; values computed from the old one must not be used.
        b.store(staying, e.block_mask_slot)
        if number in self.unit.divergence.divergent:
            b.store(b.and_(b.load(e.live_mask_slot, typ=I32), b.not_(leaving)), e.live_mask_slot)
            for part in range(e.parts):
                exiting = e.unpack(leaving, part)
                self.store_pcs(part, b.select(exiting, self.pc_vector(EXITED_PC), self.load_pcs(part)))
        else:
            b.store(staying, e.live_mask_slot)
            self.exit_all_but(staying)
        e.invalidate_masks()
        b.branch(self.edge(number, target))

    def _switch(self, number: int, end: Switch) -> None:
        e, b = self.e, self.e.builder
        if not end.targets:
            self.stop_launch()
            return
        if e.shape(end.index).uniform:
            index = e.scalar_operand(end.index, "b32", 0)
            switch = b.switch(index, self.edge(number, end.targets[-1]))
            for value, target in enumerate(end.targets[:-1]):
                switch.add_case(i32(value), self.edge(number, target))
            return
        # brx.idx with a varying index: the targets as a chain of selects, of which there are few. An index out of range
        # is undefined behaviour (PTX ISA section 9.7.12.2), and takes the last target here.
        for part in range(e.parts):
            index = e.vector_operand(end.index, "b32", part)
            pc = self.pc_vector(_pc(end.targets[-1]))
            for value, target in enumerate(end.targets[:-1]):
                pc = b.select(b.icmp_unsigned("==", index, self.pc_vector(value)), self.pc_vector(_pc(target)), pc)
            self._set_pc(number, part, pc)
        self.dispatch_targets.update(target for target in end.targets if target != EXIT)
        b.branch(self.dispatch_block())

    # ---- warp collectives --------------------------------------------------------------------------------------------

    def wait_for_members(self, number: int, members: Value) -> None:
        """Continue with a collective only when all live lanes among ``members`` (bits) execute it.

        Collectives are the first instruction of their block, so that a lane that waits is at the start of a block, and
        the block can be executed again, by all members together.
        """
        e, b = self.e, self.e.builder
        if not e.divergent:
            # All live lanes are here.
            return
        lanes = e.block_mask()
        missing = b.and_(b.and_(members, b.load(e.live_mask_slot, typ=I32)), b.not_(lanes))
        incomplete = b.icmp_unsigned("!=", missing, i32(0))
        go_on = e.append_block()
        if not self.scalar_pc:
            # The missing lanes may wait at any block; the order of blocks does not bring them here.
            b.cbranch(incomplete, self.diverged_at(number), go_on)
            b.position_at_end(go_on)
            return
        wait = e.append_block("collect")
        # The scheduler forces a collective when no lane can run: members that never arrive must not hang the launch.
        forced = load_field(b, e.context, Warp.FORCE_COLLECTIVE)
        b.cbranch(b.and_(incomplete, b.icmp_unsigned("==", forced, i32(0))), wait, go_on)
        b.position_at_end(wait)
        old = load_field(b, e.context, Warp.COLLECTIVE_MASK)
        store_field(b, b.or_(old, lanes), e.context, Warp.COLLECTIVE_MASK)
        store_field(b, i32(e.site), e.context, Warp.STOP_SITE)
        b.branch(self.dispatch_block())
        b.position_at_end(go_on)
        # Members that have waited here execute now, and wait no longer.
        old = load_field(b, e.context, Warp.COLLECTIVE_MASK)
        store_field(b, b.and_(old, b.not_(lanes)), e.context, Warp.COLLECTIVE_MASK)
        store_field(b, i32(0), e.context, Warp.FORCE_COLLECTIVE)


def _pc(target: int) -> int:
    return EXITED_PC if target == EXIT else target
