"""Per-lane program counters, the dispatcher that selects the lanes to execute, and the entries of the warp function.

Each lane has a program counter in the warp's context: the number of the basic block that it executes next. Only where
lanes can be divergent are the counters maintained. There the lanes at the lowest block execute, until they would pass a
block at which others wait; the dispatcher then selects again, and lanes at one block execute it together. Blocks are
numbered such that this reconverges lanes at the immediate post-dominator of the branch where they diverged, see
:mod:`~gpuemu_lsp.engine.emulator.analysis.cfg`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_lanes, store_field, store_lanes
from gpuemu_lsp.engine.emulator.abi.memory import POISON
from gpuemu_lsp.engine.emulator.abi.states import EXITED_PC, Resume, Status
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.analysis.liveness import undefined_uses
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.register_types import poison_value
from gpuemu_lsp.engine.emulator.codegen.core.suspend import WarpExits
from gpuemu_lsp.engine.emulator.ir.lattice import VectorShape
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I8, I32, I64, Value, i32


class Dispatcher(WarpExits):
    """Selects the lanes to execute; the scalar-PC version does so at every block, the others where lanes diverge."""

    def __init__(self, e: Emitter) -> None:
        pre = e.preamble
        self.lowest_waiting_slot = pre.alloca(I32)
        super().__init__(e)
        self.target_slot = pre.alloca(I32)
        self.entries = [e.append_block(f"b{number}") for number in range(len(e.unit.program.blocks))]
        self.dispatch_targets: set[int] = set()
        self._dispatcher: ir.Block | None = None

    def finish(self) -> None:
        """Write the requested stubs, the dispatcher, and the branch of the entry block."""
        # In this order: stubs may request the dispatcher, its successors are stubs again, and the entry block must be
        # complete, with everything that was hoisted into it, before its branch is appended.
        self.write_stubs()
        if self.scalar_pc:
            self.dispatch_block()
            self.dispatch_targets.update(range(len(self.entries)))
        if self._dispatcher is not None:
            self._write_dispatcher(self._dispatcher)
        self.write_stubs()
        self._write_entry()

    # ---- entries -----------------------------------------------------------------------------------------------------

    def _write_entry(self) -> None:
        e, b = self.e, self.e.builder
        cases: dict[int, Value] = {Resume.START: self._start()}
        if self.scalar_pc:
            cases[Resume.SAVED] = self._restored(lambda name: self.unit.divergence.shapes[name])
            cases[Resume.IMPORT] = self._restored(lambda name: self.unit.handover_shapes[name])
        else:
            # This version is the fallback of one that speculates at these branches, and which hands warps over here.
            if self.unit.divergence.divergent_loop_branches and self._dispatcher is not None:
                cases[Resume.SAVED] = self._restored(lambda name: self.unit.divergence.shapes[name])
            for number in sorted(self.resumable):
                cases[Resume.FIRST_BLOCK + number] = self._resumed(number)
        pre = e.preamble
        # Last in the entry block, of which everything above may have become a part.
        resume = load_field(pre, e.context, Warp.RESUME)
        self.start_quantum(pre)
        invalid = e.append_block("invalid")
        b.position_at_end(invalid)
        b.unreachable()
        if len(cases) == 1:
            pre.branch(cases[Resume.START])
            return
        switch = pre.switch(resume, invalid)
        for value, block in cases.items():
            switch.add_case(i32(value), block)

    def _start(self) -> ir.Block:
        e, b = self.e, self.e.builder
        block = e.append_block("start")
        b.position_at_end(block)
        lanes = load_field(b, e.context, Warp.THREAD_MASK)
        self._set_converged(lanes)
        # In a full warp the first divergent branch sets the counters of all lanes; in a partial one those of missing
        # threads must read as exited.
        if self.scalar_pc or not self.unit.block_shape.full_warps:
            self.exit_all_but(lanes)
        # The context is that of an earlier warp: stacks must be empty again.
        if self.unit.program.recursive:
            for part in range(e.parts):
                empty = ir.Constant(ir.VectorType(I64, e.lanes), None)
                store_lanes(b, empty, e.context, Warp.STACK_DEPTH.element(part * e.lanes))
        self._poison_undefined()
        b.branch(self.dispatch_block() if self.scalar_pc else self.entries[0])
        return block

    def _poison_undefined(self) -> None:
        """Initialise the registers that may be read before they are written.

        A fixed pattern: what an earlier warp left in the context would make results depend on the schedule. A launch
        with another fill byte has other values in those that the program computes with.
        """
        e, unit = self.e, self.unit
        names = unit.liveness.registers(unit.liveness.live_in[0])
        used = undefined_uses(unit.program, unit.graph, unit.liveness) if names else {}
        for name in names:
            for index in range(e.slot_count(name)):
                value = poison_value(e.slot_type(name))
                e.store_slot(name, index, self._with_fill(value) if name in used else value)

    def _with_fill(self, poison: Value) -> Value:
        """Return the initial value of a register with the fill byte of the launch in place of the usual one."""
        e, b = self.e, self.e.builder
        change = b.xor(b.trunc(e.launch(LaunchRecord.FILL), I8), ir.Constant(I8, POISON))
        vector = isinstance(poison.type, ir.VectorType)
        element = poison.type.element if vector else poison.type
        width = element.width if isinstance(element, ir.IntType) else {"float": 32, "double": 64}[str(element)]
        scalar = ir.IntType(width)
        if width < 8:
            spread = b.trunc(change, scalar)
        else:
            wide = b.zext(change, scalar) if width > 8 else change
            spread = b.mul(wide, ir.Constant(scalar, int.from_bytes(b"\1" * (width // 8), "little")))
        integer = ir.VectorType(scalar, poison.type.count) if vector else scalar
        if vector:
            spread = t.splat(b, spread, integer.count)
        return b.bitcast(b.xor(b.bitcast(poison, integer), spread), poison.type)

    def _resumed(self, number: int) -> ir.Block:
        """Return the entry for a warp that was suspended, converged, in front of block ``number``."""
        e, b = self.e, self.e.builder
        block = e.append_block(f"resume{number}")
        b.position_at_end(block)
        self._set_converged(load_field(b, e.context, Warp.ACTIVE_MASK))
        for name in self.unit.liveness.registers(self.unit.liveness.live_in[number]):
            self.load_saved(name, self.unit.divergence.shapes[name])
        b.branch(self.entries[number])
        return block

    def _restored(self, shape_of: Callable[[str], VectorShape]) -> ir.Block:
        """Return the entry for a warp whose lanes continue at their program counters."""
        e, b = self.e, self.e.builder
        block = e.append_block("restore")
        b.position_at_end(block)
        for name in e.registers_with_slots():
            self.load_saved(name, shape_of(name))
        b.branch(self.dispatch_block())
        return block

    def _set_converged(self, lanes: Value) -> None:
        b = self.e.builder
        b.store(lanes, self.e.block_mask_slot)
        b.store(lanes, self.e.live_mask_slot)
        b.store(i32(EXITED_PC), self.lowest_waiting_slot)

    # ---- stubs that move lanes ---------------------------------------------------------------------------------------

    def wait_at(self, number: int) -> ir.Block:
        """Return the stub where the executing lanes stop in front of block ``number``, and others are selected."""

        def move() -> None:
            self.set_pcs(self.e.builder.load(self.target_slot, typ=I32))
            self.e.builder.branch(self.dispatch_block())

        def body() -> None:
            # One copy of the masked stores serves all blocks: the target travels in a stack slot.
            self.e.builder.store(i32(number), self.target_slot)
            self.e.builder.branch(self.stub("move", 0, move))

        self.dispatch_targets.add(number)
        return self.stub("wait", number, body)

    def exit_lanes(self) -> ir.Block:
        """Return the stub where the executing lanes exit, but other lanes live on."""

        def body() -> None:
            self.set_pcs(EXITED_PC)
            self.e.builder.branch(self.dispatch_block())

        return self.stub("exit", 0, body)

    def exit_warp(self) -> ir.Block:
        """Return the stub where the last lanes of the warp exit."""
        return self.stub("done", 0, lambda: self.leave(Status.DONE))

    def exit_all_but(self, lanes: Value) -> None:
        """Mark the program counters of all lanes outside ``lanes`` as exited."""
        # The dispatcher derives the live mask from the counters. In a program without divergence it does not exist.
        if not self.unit.divergence.divergent:
            return
        for part in range(self.e.parts):
            remaining = self.e.unpack(lanes, part)
            pc = self.e.builder.select(remaining, self.pc_vector(0), self.pc_vector(EXITED_PC))
            self.store_pcs(part, pc)

    def diverged_at(self, number: int) -> ir.Block:
        """Return the stub that hands the warp to the scalar-PC version, the executing lanes at block ``number``."""

        def move() -> None:
            self.set_pcs(self.e.builder.load(self.target_slot, typ=I32))
            self.e.builder.branch(self._import_stub())

        def body() -> None:
            self.e.builder.store(i32(number), self.target_slot)
            self.e.builder.branch(self.stub("move over", 0, move))

        return self.stub("diverged", number, body)

    def restart_in_scalar_pc(self, number: int) -> ir.Block:
        """Return the stub that hands the warp over inside block ``number``, to execute that block from its start."""
        if number in self.unit.divergence.divergent:
            return self.diverged_at(number)

        def body() -> None:
            # Counters are not maintained in convergent blocks: all of them are set, to the block or to exited.
            b = self.e.builder
            lanes = b.load(self.e.block_mask_slot, typ=I32)
            for part in range(self.e.parts):
                executing = self.e.unpack(lanes, part)
                self.store_pcs(part, b.select(executing, self.pc_vector(number), self.pc_vector(EXITED_PC)))
            b.branch(self._import_stub())

        return self.stub("scalar pc", number, body)

    def _import_stub(self) -> ir.Block:
        return self.stub("hand over", 0, lambda: self.hand_over(Resume.IMPORT, Status.DIVERGED))

    # ---- quantum -----------------------------------------------------------------------------------------------------

    def yield_at(self, number: int, divergent: bool) -> ir.Block:
        """Return the stub for a used-up quantum on a back edge to block ``number``."""

        def rotate() -> None:
            self.set_pcs(number)
            self.e.builder.branch(self.stub("rotate", 0, self._rotate))

        if self.scalar_pc:
            return self.stub("yield", number, rotate)
        suspend = self.suspend(number, Status.YIELD)
        if not divergent:
            return suspend
        # Selection by block number alone never leaves a loop in which lanes spin for others that wait at a higher
        # block, such as the holder of a lock. The scalar-PC version rotates between groups of lanes.
        diverged = self.diverged_at(number)

        def body() -> None:
            b = self.e.builder
            converged = b.icmp_unsigned("==", b.load(self.lowest_waiting_slot, typ=I32), i32(EXITED_PC))
            b.cbranch(converged, suspend, diverged)

        return self.stub("yield", number, body)

    def _rotate(self) -> None:
        """Select another group of lanes, round robin: the current one may spin for something that they do.

        Independent thread scheduling guarantees progress to divergent lanes (CUDA C++ Programming Guide, compute
        capability 7.x).
        """
        e, b = self.e, self.e.builder
        self.count_steps()
        waiting = b.or_(load_field(b, e.context, Warp.BARRIER_MASK), load_field(b, e.context, Warp.COLLECTIVE_MASK))
        group = b.load(e.block_mask_slot, typ=I32)
        others = b.and_(b.load(e.live_mask_slot, typ=I32), b.not_(b.or_(waiting, group)))
        last = load_field(b, e.context, Warp.PREFERRED_LANE)
        # Lanes above the one selected last come first: -2 << lane are the bits above it. "No lane yet" (-1) counts as
        # lane 31, above which there are none.
        start = b.and_(b.select(b.icmp_signed("<", last, i32(0)), i32(31), last), i32(31))
        above = b.and_(others, b.shl(i32(-2), start))
        candidates = b.select(b.icmp_unsigned("!=", above, i32(0)), above, others)
        lane = t.intrinsic(b, "llvm.cttz.i32", I32, [candidates, ir.Constant(I1, 0)])
        preferred = b.select(b.icmp_unsigned("!=", others, i32(0)), lane, i32(-1))
        store_field(b, preferred, e.context, Warp.PREFERRED_LANE)
        turns = b.sub(b.load(self.turns_slot, typ=I32), i32(1))
        b.store(turns, self.turns_slot)
        go_on, leave = e.append_block(), e.append_block()
        b.cbranch(b.icmp_signed(">", turns, i32(0)), go_on, leave)
        b.position_at_end(go_on)
        b.branch(self.dispatch_block())
        b.position_at_end(leave)
        b.branch(self.save_all_and_leave(Status.YIELD))

    # ---- program counters --------------------------------------------------------------------------------------------

    def pc_vector(self, value: int) -> Value:
        """Return ``value`` as the program counter of every lane of a part."""
        return t.splat(self.e.builder, i32(value), self.e.lanes)

    def load_pcs(self, part: int) -> Value:
        """Load the program counters of the lanes of ``part``."""
        e = self.e
        return load_lanes(e.builder, e.context, Warp.PC.element(part * e.lanes), e.lanes)

    def store_pcs(self, part: int, value: Value) -> None:
        """Store the program counters of the lanes of ``part``."""
        e = self.e
        store_lanes(e.builder, value, e.context, Warp.PC.element(part * e.lanes))

    def set_pcs(self, number: int | Value) -> None:
        """Set the program counter of the executing lanes."""
        e, b = self.e, self.e.builder
        lanes = b.load(e.block_mask_slot, typ=I32)
        target = t.splat(b, i32(number) if isinstance(number, int) else number, e.lanes)
        for part in range(e.parts):
            executing = e.unpack(lanes, part)
            self.store_pcs(part, b.select(executing, target, self.load_pcs(part)))

    # ---- the dispatcher ----------------------------------------------------------------------------------------------

    def dispatch_block(self) -> ir.Block:
        """Return the dispatcher's block. A function that never requests it has none."""
        if self._dispatcher is None:
            self._dispatcher = self.e.append_block("dispatch")
        return self._dispatcher

    def _write_dispatcher(self, block: ir.Block) -> None:
        e, b = self.e, self.e.builder
        b.position_at_end(block)
        pcs = [self.load_pcs(part) for part in range(e.parts)]
        live = e.pack([b.icmp_unsigned("!=", pc, self.pc_vector(EXITED_PC)) for pc in pcs])
        b.store(live, e.live_mask_slot)
        if self.scalar_pc:
            selected, candidates = self._select_runnable(pcs, live)
        else:
            selected, candidates = self._lowest(pcs), pcs
        chosen = [b.icmp_unsigned("==", pc, t.splat(b, selected, e.lanes)) for pc in candidates]
        b.store(e.pack(chosen), e.block_mask_slot)
        # An edge compares its target with the lowest block at which other lanes wait: below it, the executing lanes
        # may continue without coming back here.
        exited = self.pc_vector(EXITED_PC)
        waiting = [b.select(is_chosen, exited, pc) for is_chosen, pc in zip(chosen, pcs, strict=True)]
        b.store(self._lowest(waiting), self.lowest_waiting_slot)
        # EXITED_PC is the greatest counter: it is selected, and the default taken, only when no lane lives.
        switch = b.switch(selected, self.exit_warp())
        for number in sorted(self.dispatch_targets):
            switch.add_case(i32(number), self._checked_entry(number))

    def _checked_entry(self, number: int) -> ir.Block:
        """Return the block to dispatch to for block ``number``."""
        if number in self.unit.divergence.divergent:
            return self.entries[number]

        def body() -> None:
            # Code of a convergent block works on scalars for the whole warp, so that no lane may be left behind. The
            # block order ensures it; a warp for which it does not must not compute wrong results, but continue in the
            # scalar-PC version.
            e, b = self.e, self.e.builder
            converged = b.icmp_unsigned("==", b.load(e.block_mask_slot, typ=I32), b.load(e.live_mask_slot, typ=I32))
            b.cbranch(converged, self.entries[number], self.diverged_at(number))

        return self.stub("enter", number, body)

    def _select_runnable(self, pcs: list[Value], live: Value) -> tuple[Value, list[Value]]:
        """Return the program counter to dispatch to, and the counters of the lanes that may be dispatched with it."""
        e, b = self.e, self.e.builder
        store_field(b, live, e.context, Warp.LIVE_MASK)
        at_barrier = load_field(b, e.context, Warp.BARRIER_MASK)
        waiting = b.or_(at_barrier, load_field(b, e.context, Warp.COLLECTIVE_MASK))
        runnable = b.and_(live, b.not_(waiting))
        some, none = e.append_block(), e.append_block("blocked")
        b.cbranch(b.icmp_unsigned("!=", runnable, i32(0)), some, none)
        b.position_at_end(none)
        ended, blocked = e.append_block(), e.append_block()
        b.cbranch(b.icmp_unsigned("==", live, i32(0)), ended, blocked)
        b.position_at_end(ended)
        self.leave(Status.DONE)
        b.position_at_end(blocked)
        b.branch(self.save_all_and_leave(Status.BLOCKED))
        b.position_at_end(some)
        runnable_pcs = [b.select(e.unpack(runnable, p), pc, self.pc_vector(EXITED_PC)) for p, pc in enumerate(pcs)]
        preferred = load_field(b, e.context, Warp.PREFERRED_LANE)
        bit = b.shl(i32(1), b.and_(preferred, i32(31)))
        honoured = b.and_(b.icmp_signed(">=", preferred, i32(0)), b.icmp_unsigned("!=", b.and_(bit, runnable), i32(0)))
        offset = b.zext(b.shl(b.and_(preferred, i32(31)), i32(2)), I64)
        wanted = t.load(b, e.context, b.add(offset, t.i64(Warp.PC)), I32)
        selected = b.select(honoured, wanted, self._lowest(runnable_pcs))
        # Lanes that wait in the selected block for a collective execute it again, now together with those that arrive;
        # lanes at a barrier are past their instruction, and only the scheduler releases them.
        candidates = [b.select(e.unpack(at_barrier, p), self.pc_vector(EXITED_PC), pc) for p, pc in enumerate(pcs)]
        return selected, candidates

    def _lowest(self, pcs: Sequence[Value]) -> Value:
        b = self.e.builder
        result = pcs[0]
        for other in pcs[1:]:
            result = b.select(b.icmp_unsigned("<", result, other), result, other)
        return t.intrinsic(b, f"llvm.vector.reduce.umin.{t.mangled(result.type)}", I32, [result])
