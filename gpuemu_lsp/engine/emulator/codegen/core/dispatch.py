"""Where lanes are, and how a warp leaves its function and comes back: counters, dispatcher, saving, resuming.

Each lane has a program counter in the warp's context. While lanes have parted, the group in the lowest block runs; it
goes on until it would pass a block where others wait, and then the dispatcher chooses anew.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_lanes, store_field, store_lanes
from gpuemu_lsp.engine.emulator.abi.states import EXITED_PC, Resume, Status
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.literals import unset
from gpuemu_lsp.engine.emulator.ir.lattice import VectorShape
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, Value, i32

_TURN = 128
"""Backward jumps of one group of independent lanes before another group gets its turn."""

_TURNS = 32
"""Turns before the general translation returns to the scheduler."""


class Switchboard:
    """Keeps track of where lanes are, and of where the function can be left and entered again."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        self.unit = e.unit
        self.general = e.unit.general
        pre = e.preamble
        self.wait_slot = pre.alloca(I32)
        self.budget_slot = pre.alloca(I32)
        self.turns_slot = pre.alloca(I32)
        self.target_slot = pre.alloca(I32)
        self.heads = [e.append_block(f"b{number}") for number in range(len(e.unit.program.blocks))]
        self._stubs: dict[tuple[str, int], ir.Block] = {}
        self._resumable: set[int] = set()
        self._pending: list[tuple[ir.Block, Callable[[], None]]] = []
        self.dispatched: set[int] = set()
        self._dispatcher: ir.Block | None = None

    # ---- the frame of the function -----------------------------------------------------------------------------------

    def finish(self) -> None:
        """Write the stubs that were asked for, the dispatcher, and the start."""
        while self._pending:
            block, body = self._pending.pop()
            self.e.builder.position_at_end(block)
            self.e.forget_masks()
            body()
        if self.general:
            self.dispatch_block()
            self.dispatched.update(range(len(self.heads)))
        if self._dispatcher is not None:
            self._write_dispatcher()
        while self._pending:
            block, body = self._pending.pop()
            self.e.builder.position_at_end(block)
            self.e.forget_masks()
            body()
        self._write_start()

    def _write_start(self) -> None:
        e, b = self.e, self.e.builder
        cases: dict[int, Value] = {Resume.START: self._start()}
        if self.general:
            cases[Resume.SAVED] = self._restored(lambda name: self.unit.info.shapes[name])
            cases[Resume.IMPORT] = self._restored(lambda name: self.unit.specialised[name])
        else:
            if self.unit.info.divergent_loop_branches and self._dispatcher is not None:
                cases[Resume.SAVED] = self._restored(lambda name: self.unit.info.shapes[name])
            for number in sorted(self._resumable):
                cases[Resume.FIRST_BLOCK + number] = self._resumed(number)
        pre = e.preamble
        resume = load_field(pre, e.context, Warp.RESUME)
        pre.store(self._quantum(), self.budget_slot)
        pre.store(i32(_TURNS), self.turns_slot)
        nowhere = e.append_block("nowhere")
        b.position_at_end(nowhere)
        b.unreachable()
        if len(cases) == 1:
            pre.branch(cases[Resume.START])
            return
        switch = pre.switch(resume, nowhere)
        for value, block in cases.items():
            switch.add_case(i32(value), block)

    def _start(self) -> ir.Block:
        e, b = self.e, self.e.builder
        block = e.append_block("start")
        b.position_at_end(block)
        lanes = load_field(b, e.context, Warp.THREAD_MASK)
        self._set_lanes(lanes)
        if self.general or not self.unit.block.full_warps:
            self.end_all_but(lanes)
        if self.unit.program.recursive:
            for part in range(e.parts):
                empty = ir.Constant(ir.VectorType(I64, e.lanes), None)
                store_lanes(b, empty, e.context, Warp.STACK_DEPTH.element(part * e.lanes))
        self._poison_unset()
        b.branch(self.dispatch_block() if self.general else self.heads[0])
        return block

    def _poison_unset(self) -> None:
        """Fill the registers that may be read before they are written: what an earlier warp left would be by chance."""
        e = self.e
        for name in self.unit.live.registers(self.unit.live.live_in[0]):
            for index in range(e.kept_parts(name)):
                e.store_home(name, index, unset(e.kept_type(name)))

    def end_all_but(self, lanes: Value) -> None:
        """Have the program counters say that the other lanes have ended, where lanes may part later."""
        if not self.unit.info.divergent:
            return
        for part in range(self.e.parts):
            running = self.e.unpack(lanes, part)
            pc = self.e.builder.select(running, self.counter(0), self.counter(EXITED_PC))
            self.store_counters(part, pc)

    def _resumed(self, number: int) -> ir.Block:
        e, b = self.e, self.e.builder
        block = e.append_block(f"resume{number}")
        b.position_at_end(block)
        self._set_lanes(load_field(b, e.context, Warp.ACTIVE_MASK))
        for name in self.unit.live.registers(self.unit.live.live_in[number]):
            self._load_saved(name, self.unit.info.shapes[name])
        b.branch(self.heads[number])
        return block

    def _restored(self, shape_of: Callable[[str], VectorShape]) -> ir.Block:
        e, b = self.e, self.e.builder
        block = e.append_block("restore")
        b.position_at_end(block)
        for name in e.homes():
            self._load_saved(name, shape_of(name))
        b.branch(self.dispatch_block())
        return block

    def _set_lanes(self, lanes: Value) -> None:
        b = self.e.builder
        b.store(lanes, self.e.mask_slot)
        b.store(lanes, self.e.alive_slot)
        b.store(i32(EXITED_PC), self.wait_slot)

    def leave(self, status: int) -> None:
        """Return to the scheduler."""
        b = self.e.builder
        if self.unit.graph.back_edges:
            self._count_steps()
        b.ret(i32(status))

    def _quantum(self) -> Value:
        """Return how many backward jumps are allowed before anybody else gets a turn."""
        return i32(_TURN) if self.general else self.e.launch(LaunchRecord.QUANTUM)

    def _count_steps(self) -> None:
        e, b = self.e, self.e.builder
        used = b.sub(self._quantum(), b.load(self.budget_slot, typ=I32))
        steps = load_field(b, e.context, Warp.STEPS)
        store_field(b, b.add(steps, b.zext(used, I64)), e.context, Warp.STEPS)
        b.store(self._quantum(), self.budget_slot)

    # ---- stubs -------------------------------------------------------------------------------------------------------

    def _stub(self, kind: str, number: int, body: Callable[[], None]) -> ir.Block:
        block = self._stubs.get((kind, number))
        if block is None:
            block = self._stubs[kind, number] = self.e.append_block(f"{kind}{number}")
            self._pending.append((block, body))
        return block

    def wait(self, number: int) -> ir.Block:
        """Return the stub where the running lanes wait at the start of a block."""

        def move() -> None:
            self.move_lanes(self.e.builder.load(self.target_slot, typ=I32))
            self.e.builder.branch(self.dispatch_block())

        def body() -> None:
            self.e.builder.store(i32(number), self.target_slot)
            self.e.builder.branch(self._stub("move", 0, move))

        self.dispatched.add(number)
        return self._stub("wait", number, body)

    def end_lanes(self) -> ir.Block:
        """Return the stub where the running lanes end while others live on."""

        def body() -> None:
            self.move_lanes(EXITED_PC)
            self.e.builder.branch(self.dispatch_block())

        return self._stub("end", 0, body)

    def done(self) -> ir.Block:
        """Return the stub where the running lanes have exited."""
        return self._stub("done", 0, lambda: self.leave(Status.DONE))

    def part(self, number: int) -> ir.Block:
        """Return the stub that hands the warp to the general code, the running lanes at block ``number``."""

        def move() -> None:
            self.move_lanes(self.e.builder.load(self.target_slot, typ=I32))
            self.e.builder.branch(self._stub("hand over", 0, self._hand_over))

        def body() -> None:
            self.e.builder.store(i32(number), self.target_slot)
            self.e.builder.branch(self._stub("move over", 0, move))

        return self._stub("part", number, body)

    def part_from(self, number: int) -> ir.Block:
        """Return the stub for a hand-over in block ``number`` itself, where counters may not be valid yet."""
        if number in self.unit.info.divergent:
            return self.part(number)

        def body() -> None:
            b = self.e.builder
            lanes = b.load(self.e.mask_slot, typ=I32)
            for part in range(self.e.parts):
                running = self.e.unpack(lanes, part)
                self.store_counters(part, b.select(running, self.counter(number), self.counter(EXITED_PC)))
            b.branch(self._stub("hand over", 0, self._hand_over))

        return self._stub("parting", number, body)

    def apart(self) -> ir.Block:
        """Return the stub that hands the warp to the plain code: lanes have parted where they were to stay together."""
        return self._stub("apart", 0, lambda: self._hand_over(Resume.SAVED, Status.MISSPECULATED))

    def _hand_over(self, resume: int = Resume.IMPORT, status: int = Status.DIVERGED) -> None:
        e, b = self.e, self.e.builder
        store_field(b, i32(resume), e.context, Warp.RESUME)
        for name in e.homes():
            self._save_as(name, self.unit.specialised[name])
        self.leave(status)

    def suspend(self, number: int, status: int) -> ir.Block:
        """Return the stub that saves what block ``number`` needs and returns; the warp is resumed there."""

        def body() -> None:
            e, b = self.e, self.e.builder
            lanes = b.load(e.mask_slot, typ=I32)
            store_field(b, lanes, e.context, Warp.ACTIVE_MASK)
            store_field(b, lanes, e.context, Warp.LIVE_MASK)
            store_field(b, i32(Resume.FIRST_BLOCK + number), e.context, Warp.RESUME)
            for name in self.unit.live.registers(self.unit.live.live_in[number]):
                self._save(name)
            self.leave(status)

        self._resumable.add(number)
        return self._stub(f"suspend{status}.", number, body)

    def give_up(self, number: int, divergent: bool) -> ir.Block:
        """Return the stub for a used-up budget on the way to block ``number``."""

        def general() -> None:
            self.move_lanes(number)
            self.e.builder.branch(self._stub("rotate", 0, self._rotate))

        if self.general:
            return self._stub("yield", number, general)
        together = self.suspend(number, Status.YIELD)
        if not divergent:
            return together
        apart = self.part(number)

        def body() -> None:
            b = self.e.builder
            alone = b.icmp_unsigned("==", b.load(self.wait_slot, typ=I32), i32(EXITED_PC))
            b.cbranch(alone, together, apart)

        return self._stub("yield", number, body)

    def _rotate(self) -> None:
        """Give lanes of another group their turn: whom this group waits for may be among them."""
        e, b = self.e, self.e.builder
        self._count_steps()
        waiting = b.or_(load_field(b, e.context, Warp.BARRIER_MASK), load_field(b, e.context, Warp.COLLECTIVE_MASK))
        group = b.load(e.mask_slot, typ=I32)
        others = b.and_(b.load(e.alive_slot, typ=I32), b.not_(b.or_(waiting, group)))
        last = load_field(b, e.context, Warp.PREFERRED_LANE)
        later = b.and_(
            others, b.shl(i32(-2), b.and_(b.select(b.icmp_signed("<", last, i32(0)), i32(31), last), i32(31)))
        )
        chosen = b.select(b.icmp_unsigned("!=", later, i32(0)), later, others)
        lane = t.intrinsic(b, "llvm.cttz.i32", I32, [chosen, ir.Constant(I1, 0)])
        store_field(b, b.select(b.icmp_unsigned("!=", others, i32(0)), lane, i32(-1)), e.context, Warp.PREFERRED_LANE)
        turns = b.sub(b.load(self.turns_slot, typ=I32), i32(1))
        b.store(turns, self.turns_slot)
        on, out = e.append_block(), e.append_block()
        b.cbranch(b.icmp_signed(">", turns, i32(0)), on, out)
        b.position_at_end(on)
        b.branch(self.dispatch_block())
        b.position_at_end(out)
        b.branch(self._saving(Status.YIELD))

    def _saving(self, status: int) -> ir.Block:
        """Return the stub that saves everything and returns."""
        return self._stub("save", status, lambda: self._save_all(status))

    def _save_all(self, status: int) -> None:
        e, b = self.e, self.e.builder
        store_field(b, i32(Resume.SAVED), e.context, Warp.RESUME)
        for name in e.homes():
            self._save(name)
        self.leave(status)

    # ---- saved registers ---------------------------------------------------------------------------------------------

    def _save(self, name: str) -> None:
        e = self.e
        if name not in self.unit.in_memory:
            for index in range(e.kept_parts(name)):
                e.store_saved(name, index, e.load_home(name, index))

    def _save_as(self, name: str, shape: VectorShape) -> None:
        """Save a register in ``shape``, in which less is known about it."""
        e, mine = self.e, self.unit.info.shapes[name]
        if shape == mine:
            self._save(name)
            return
        values = []
        for part in range(e.parts):
            value = e.offset(e.load_home(name, part if mine.per_part else 0), mine, part)
            values.append(e.spread(value, mine.step) if shape.varying else value)
        for part, value in enumerate(values):
            e.store_saved(name, part, value)

    def _load_saved(self, name: str, shape: VectorShape) -> None:
        """Load a register that was saved in ``shape`` into its home, spreading it where that varies."""
        e, b = self.e, self.e.builder
        mine = self.unit.info.shapes[name]
        if name in self.unit.in_memory and mine == shape:
            return
        scalar = e.register_type(name)
        type_ = ir.VectorType(scalar, e.lanes) if shape.varying else scalar
        values = []
        for index in range(e.kept_parts(name)):
            source = index if shape.varying or shape.per_part else 0
            value = e.load_saved(name, source, type_)
            if mine.varying and not shape.varying:
                if shape.step and not shape.per_part and index:
                    offset = (shape.step * index * e.lanes) & ((1 << scalar.width) - 1)
                    value = b.add(value, ir.Constant(scalar, offset))
                value = e.spread(value, shape.step)
            values.append(value)
        for index, value in enumerate(values):
            e.store_home(name, index, value)

    # ---- program counters --------------------------------------------------------------------------------------------

    def counter(self, value: int) -> Value:
        """Return ``value`` as one program counter per lane."""
        return t.splat(self.e.builder, i32(value), self.e.lanes)

    def load_counters(self, part: int) -> Value:
        """Load the program counters of the lanes of ``part``."""
        e = self.e
        return load_lanes(e.builder, e.context, Warp.PC.element(part * e.lanes), e.lanes)

    def store_counters(self, part: int, value: Value) -> None:
        """Store the program counters of the lanes of ``part``."""
        e = self.e
        store_lanes(e.builder, value, e.context, Warp.PC.element(part * e.lanes))

    def move_lanes(self, number: int | Value) -> None:
        """Set the program counter of the running lanes."""
        e, b = self.e, self.e.builder
        lanes = b.load(e.mask_slot, typ=I32)
        target = t.splat(b, i32(number) if isinstance(number, int) else number, e.lanes)
        for part in range(e.parts):
            running = e.unpack(lanes, part)
            self.store_counters(part, b.select(running, target, self.load_counters(part)))

    def dispatch_block(self) -> ir.Block:
        """Return the block that picks the lanes to run next, made when first asked for."""
        if self._dispatcher is None:
            self._dispatcher = self.e.append_block("dispatch")
        return self._dispatcher

    def _write_dispatcher(self) -> None:
        e, b = self.e, self.e.builder
        assert self._dispatcher is not None
        b.position_at_end(self._dispatcher)
        counters = [self.load_counters(part) for part in range(e.parts)]
        alive = e.bits([b.icmp_unsigned("!=", pc, self.counter(EXITED_PC)) for pc in counters])
        b.store(alive, e.alive_slot)
        if self.general:
            lowest, candidates = self._choose_general(counters, alive)
        else:
            lowest, candidates = self._lowest(counters), counters
        chosen = [b.icmp_unsigned("==", pc, t.splat(b, lowest, e.lanes)) for pc in candidates]
        b.store(e.bits(chosen), e.mask_slot)
        rest = [
            b.select(is_chosen, self.counter(EXITED_PC), pc) for is_chosen, pc in zip(chosen, counters, strict=True)
        ]
        b.store(self._lowest(rest), self.wait_slot)
        switch = b.switch(lowest, self.done())
        for number in sorted(self.dispatched):
            switch.add_case(i32(number), self._entered(number))

    def _entered(self, number: int) -> ir.Block:
        """Return where the dispatcher goes for a block: lanes expected together must be together."""
        if number in self.unit.info.divergent:
            return self.heads[number]

        def body() -> None:
            e, b = self.e, self.e.builder
            together = b.icmp_unsigned("==", b.load(e.mask_slot, typ=I32), b.load(e.alive_slot, typ=I32))
            b.cbranch(together, self.heads[number], self.part(number))

        return self._stub("enter", number, body)

    def _choose_general(self, counters: list[Value], alive: Value) -> tuple[Value, list[Value]]:
        """Choose among lanes that wait for nothing; lanes waiting in the chosen block for others join in."""
        e, b = self.e, self.e.builder
        store_field(b, alive, e.context, Warp.LIVE_MASK)
        at_barrier = load_field(b, e.context, Warp.BARRIER_MASK)
        waiting = b.or_(at_barrier, load_field(b, e.context, Warp.COLLECTIVE_MASK))
        runnable = b.and_(alive, b.not_(waiting))
        some, none = e.append_block(), e.append_block("blocked")
        b.cbranch(b.icmp_unsigned("!=", runnable, i32(0)), some, none)
        b.position_at_end(none)
        ended, blocked = e.append_block(), e.append_block()
        b.cbranch(b.icmp_unsigned("==", alive, i32(0)), ended, blocked)
        b.position_at_end(ended)
        self.leave(Status.DONE)
        b.position_at_end(blocked)
        b.branch(self._saving(Status.BLOCKED))
        b.position_at_end(some)
        free = [b.select(e.unpack(runnable, p), pc, self.counter(EXITED_PC)) for p, pc in enumerate(counters)]
        prefer = load_field(b, e.context, Warp.PREFERRED_LANE)
        bit = b.shl(i32(1), b.and_(prefer, i32(31)))
        honoured = b.and_(b.icmp_signed(">=", prefer, i32(0)), b.icmp_unsigned("!=", b.and_(bit, runnable), i32(0)))
        offset = b.zext(b.shl(b.and_(prefer, i32(31)), i32(2)), I64)
        wanted = t.load(b, e.context, b.add(offset, t.i64(Warp.PC)), I32)
        lowest = b.select(honoured, wanted, self._lowest(free))
        here = [b.select(e.unpack(at_barrier, p), self.counter(EXITED_PC), pc) for p, pc in enumerate(counters)]
        return lowest, here

    def _lowest(self, counters: Sequence[Value]) -> Value:
        b = self.e.builder
        result = counters[0]
        for other in counters[1:]:
            result = b.select(b.icmp_unsigned("<", result, other), result, other)
        return t.intrinsic(b, f"llvm.vector.reduce.umin.{t.mangled(result.type)}", I32, [result])
