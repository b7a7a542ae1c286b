"""Control flow of a warp: edges, lanes that part and meet, waiting and being resumed.

Each lane has a program counter in the warp's context. While lanes have parted, the group in the lowest block runs; it
goes on until it would pass a block where others wait (one comparison per edge), and then the dispatcher chooses anew.
Blocks whose lanes cannot have parted branch directly and know nothing of this.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.codegen import ir_tools as t
from gpuemu_lsp.engine.emulator.codegen.arithmetic import predicate_parts, predicate_scalar
from gpuemu_lsp.engine.emulator.codegen.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.ir_tools import I1, I8, I32, I64, Value, i32
from gpuemu_lsp.engine.emulator.codegen.linked import RUNTIME
from gpuemu_lsp.engine.emulator.layout import NO_BLOCK, BarrierKind, Kind, Launch, Resume, Status, Warp
from gpuemu_lsp.engine.emulator.opcodes import is_collective
from gpuemu_lsp.engine.emulator.program import EXIT, Barrier, Branch, Invoke, Jump, Return, Stop, Switch
from gpuemu_lsp.engine.emulator.shapes import Shape
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Negated, Operand, Register

_TURN = 128
"""Backward jumps of one group of independent lanes before another group gets its turn."""

_TURNS = 32
"""Turns before the general translation returns to the scheduler."""


class Control:
    """Writes everything of one function that is not straight-line code."""

    def __init__(self, e: Emitter) -> None:
        self.e = e
        self.unit = e.unit
        self.general = e.unit.general
        pre = e.preamble
        self.wait_slot = pre.alloca(I32)
        self.budget_slot = pre.alloca(I32)
        self.turns_slot = pre.alloca(I32)
        self.heads = [e.append_block(f"b{number}") for number in range(len(e.unit.program.blocks))]
        self._stubs: dict[tuple[str, int], ir.Block] = {}
        self._resumable: set[int] = set()
        self._pending: list[tuple[ir.Block, Callable[[], None]]] = []
        self._dispatched: set[int] = set()
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
            self._dispatch_block()
            self._dispatched.update(range(len(self.heads)))
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
        cases = {Resume.START: self._start()}
        if self.general:
            cases[Resume.SAVED] = self._restored(lambda name: self.unit.info.shapes[name])
            cases[Resume.IMPORT] = self._restored(lambda name: self.unit.specialised[name])
        else:
            for number in sorted(self._resumable):
                cases[Resume.FIRST_BLOCK + number] = self._resumed(number)
        pre = e.preamble
        resume = t.load(pre, e.context, Warp.RESUME, I32)
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
        lanes = t.load(b, e.context, Warp.LANES, I32)
        self._set_lanes(lanes)
        if self.general or not self.unit.block.full_warps:
            self._end_all_but(lanes)
        if self.unit.program.recursive:
            for part in range(e.parts):
                empty = ir.Constant(ir.VectorType(I64, e.lanes), None)
                t.store(b, empty, e.context, Warp.STACK + 8 * part * e.lanes, align=8)
        b.branch(self._dispatch_block() if self.general else self.heads[0])
        return block

    def _end_all_but(self, lanes: Value) -> None:
        """Have the program counters say that the other lanes have ended, where lanes may part later."""
        if not self.unit.info.divergent:
            return
        for part in range(self.e.parts):
            running = self.e.unpack(lanes, part)
            pc = self.e.builder.select(running, self._pc_constant(0), self._pc_constant(NO_BLOCK))
            self._store_pc(part, pc)

    def _resumed(self, number: int) -> ir.Block:
        e, b = self.e, self.e.builder
        block = e.append_block(f"resume{number}")
        b.position_at_end(block)
        self._set_lanes(t.load(b, e.context, Warp.MASK, I32))
        for name in self.unit.live.registers(self.unit.live.live_in[number]):
            self._load_saved(name, self.unit.info.shapes[name])
        b.branch(self.heads[number])
        return block

    def _restored(self, shape_of: Callable[[str], Shape]) -> ir.Block:
        e, b = self.e, self.e.builder
        block = e.append_block("restore")
        b.position_at_end(block)
        for name in e.homes():
            self._load_saved(name, shape_of(name))
        b.branch(self._dispatch_block())
        return block

    def _set_lanes(self, lanes: Value) -> None:
        b = self.e.builder
        b.store(lanes, self.e.mask_slot)
        b.store(lanes, self.e.alive_slot)
        b.store(i32(NO_BLOCK), self.wait_slot)

    def leave(self, status: int) -> None:
        """Return to the scheduler."""
        b = self.e.builder
        if self.unit.graph.back_edges:
            self._count_steps()
        b.ret(i32(status))

    def _quantum(self) -> Value:
        """Return how many backward jumps are allowed before anybody else gets a turn."""
        return i32(_TURN) if self.general else self.e.launch(Launch.QUANTUM, I32)

    def _count_steps(self) -> None:
        e, b = self.e, self.e.builder
        used = b.sub(self._quantum(), b.load(self.budget_slot, typ=I32))
        steps = t.load(b, e.context, Warp.STEPS, I64)
        t.store(b, b.add(steps, b.zext(used, I64)), e.context, Warp.STEPS)
        b.store(self._quantum(), self.budget_slot)

    # ---- stubs -------------------------------------------------------------------------------------------------------

    def _stub(self, kind: str, number: int, body: Callable[[], None]) -> ir.Block:
        block = self._stubs.get((kind, number))
        if block is None:
            block = self._stubs[kind, number] = self.e.append_block(f"{kind}{number}")
            self._pending.append((block, body))
        return block

    def _wait(self, number: int) -> ir.Block:
        """Return the stub where the running lanes wait at the start of a block."""

        def body() -> None:
            self._move_lanes(number)
            self.e.builder.branch(self._dispatch_block())

        self._dispatched.add(number)
        return self._stub("wait", number, body)

    def _end_lanes(self) -> ir.Block:
        """Return the stub where the running lanes end while others live on."""

        def body() -> None:
            self._move_lanes(NO_BLOCK)
            self.e.builder.branch(self._dispatch_block())

        return self._stub("end", 0, body)

    def _done(self) -> ir.Block:
        return self._stub("done", 0, lambda: self.leave(Status.DONE))

    def part(self, number: int) -> ir.Block:
        """Return the stub that hands the warp to the general code, the running lanes at block ``number``."""

        def body() -> None:
            self._move_lanes(number)
            self._hand_over()

        return self._stub("part", number, body)

    def _part_from(self, number: int) -> ir.Block:
        """Return the stub for a hand-over in block ``number`` itself, where counters may not be valid yet."""
        if number in self.unit.info.divergent:
            return self.part(number)

        def body() -> None:
            b = self.e.builder
            lanes = b.load(self.e.mask_slot, typ=I32)
            for part in range(self.e.parts):
                running = self.e.unpack(lanes, part)
                self._store_pc(part, b.select(running, self._pc_constant(number), self._pc_constant(NO_BLOCK)))
            self._hand_over()

        return self._stub("parting", number, body)

    def _hand_over(self) -> None:
        e, b = self.e, self.e.builder
        t.store(b, i32(Resume.IMPORT), e.context, Warp.RESUME)
        for name in e.homes():
            self._save(name)
        self.leave(Status.PART)

    def _suspend(self, number: int, status: int) -> ir.Block:
        """Return the stub that saves what block ``number`` needs and returns; the warp is resumed there."""

        def body() -> None:
            e, b = self.e, self.e.builder
            lanes = b.load(e.mask_slot, typ=I32)
            t.store(b, lanes, e.context, Warp.MASK)
            t.store(b, lanes, e.context, Warp.ALIVE)
            t.store(b, i32(Resume.FIRST_BLOCK + number), e.context, Warp.RESUME)
            for name in self.unit.live.registers(self.unit.live.live_in[number]):
                self._save(name)
            self.leave(status)

        self._resumable.add(number)
        return self._stub(f"suspend{status}.", number, body)

    def _yield(self, number: int, divergent: bool) -> ir.Block:
        """Return the stub for a used-up budget on the way to block ``number``."""

        def general() -> None:
            self._move_lanes(number)
            self._rotate()

        if self.general:
            return self._stub("yield", number, general)
        together = self._suspend(number, Status.YIELD)
        if not divergent:
            return together
        apart = self.part(number)

        def body() -> None:
            b = self.e.builder
            alone = b.icmp_unsigned("==", b.load(self.wait_slot, typ=I32), i32(NO_BLOCK))
            b.cbranch(alone, together, apart)

        return self._stub("yield", number, body)

    def _rotate(self) -> None:
        """Give lanes of another group their turn: whom this group waits for may be among them."""
        e, b = self.e, self.e.builder
        self._count_steps()
        waiting = b.or_(t.load(b, e.context, Warp.BAR_MASK, I32), t.load(b, e.context, Warp.COLLECTIVE_MASK, I32))
        group = b.load(e.mask_slot, typ=I32)
        others = b.and_(b.load(e.alive_slot, typ=I32), b.not_(b.or_(waiting, group)))
        last = t.load(b, e.context, Warp.PREFER, I32)
        later = b.and_(
            others, b.shl(i32(-2), b.and_(b.select(b.icmp_signed("<", last, i32(0)), i32(31), last), i32(31)))
        )
        chosen = b.select(b.icmp_unsigned("!=", later, i32(0)), later, others)
        lane = t.intrinsic(b, "llvm.cttz.i32", I32, [chosen, ir.Constant(I1, 0)])
        t.store(b, b.select(b.icmp_unsigned("!=", others, i32(0)), lane, i32(-1)), e.context, Warp.PREFER)
        turns = b.sub(b.load(self.turns_slot, typ=I32), i32(1))
        b.store(turns, self.turns_slot)
        on, out = e.append_block(), e.append_block()
        b.cbranch(b.icmp_signed(">", turns, i32(0)), on, out)
        b.position_at_end(on)
        b.branch(self._dispatch_block())
        b.position_at_end(out)
        self._save_all(Status.YIELD)

    def _save_all(self, status: int) -> None:
        e, b = self.e, self.e.builder
        t.store(b, i32(Resume.SAVED), e.context, Warp.RESUME)
        for name in e.homes():
            self._save(name)
        self.leave(status)

    # ---- saved registers ---------------------------------------------------------------------------------------------

    def _save(self, name: str) -> None:
        e, b = self.e, self.e.builder
        offset = self.unit.saved[name]
        for index, home in enumerate(e.home(name)):
            value = b.load(home)
            value = b.zext(value, _stored(value.type)) if _stored(value.type) != value.type else value
            t.store(b, value, e.context, offset + index * _stride(value.type), align=1)

    def _load_saved(self, name: str, shape: Shape) -> None:
        """Load a register that was saved in ``shape`` into its home, spreading it where that varies."""
        e, b = self.e, self.e.builder
        offset = self.unit.saved[name]
        homes = e.home(name)
        mine = self.unit.info.shapes[name]
        scalar = e.register_type(name)
        type_ = ir.VectorType(scalar, e.lanes) if shape.varying else scalar
        for index, home in enumerate(homes):
            source = index if shape.varying or shape.per_part else 0
            stored = _stored(type_)
            value = t.load(b, e.context, offset + source * _stride(stored), stored, align=1)
            value = b.trunc(value, type_) if stored != type_ else value
            if mine.varying and not shape.varying:
                if shape.step and not shape.per_part and index:
                    value = b.add(
                        value, ir.Constant(scalar, (shape.step * index * e.lanes) & ((1 << scalar.width) - 1))
                    )
                value = e.spread(value, shape.step)
            b.store(value, home)

    # ---- program counters --------------------------------------------------------------------------------------------

    def _pc_constant(self, value: int) -> Value:
        return t.splat(self.e.builder, i32(value), self.e.lanes)

    def _load_pc(self, part: int) -> Value:
        e = self.e
        return t.load(e.builder, e.context, Warp.PC + 4 * part * e.lanes, ir.VectorType(I32, e.lanes), align=4)

    def _store_pc(self, part: int, value: Value) -> None:
        e = self.e
        t.store(e.builder, value, e.context, Warp.PC + 4 * part * e.lanes, align=4)

    def _move_lanes(self, number: int) -> None:
        """Set the program counter of the running lanes."""
        e, b = self.e, self.e.builder
        lanes = b.load(e.mask_slot, typ=I32)
        for part in range(e.parts):
            running = e.unpack(lanes, part)
            self._store_pc(part, b.select(running, self._pc_constant(number), self._load_pc(part)))

    def _dispatch_block(self) -> ir.Block:
        if self._dispatcher is None:
            self._dispatcher = self.e.append_block("dispatch")
        return self._dispatcher

    def _write_dispatcher(self) -> None:
        e, b = self.e, self.e.builder
        assert self._dispatcher is not None
        b.position_at_end(self._dispatcher)
        counters = [self._load_pc(part) for part in range(e.parts)]
        alive = e.bits([b.icmp_unsigned("!=", pc, self._pc_constant(NO_BLOCK)) for pc in counters])
        b.store(alive, e.alive_slot)
        if self.general:
            lowest, candidates = self._choose_general(counters, alive)
        else:
            lowest, candidates = self._lowest(counters), counters
        chosen = [b.icmp_unsigned("==", pc, t.splat(b, lowest, e.lanes)) for pc in candidates]
        b.store(e.bits(chosen), e.mask_slot)
        rest = [
            b.select(is_chosen, self._pc_constant(NO_BLOCK), pc) for is_chosen, pc in zip(chosen, counters, strict=True)
        ]
        b.store(self._lowest(rest), self.wait_slot)
        switch = b.switch(lowest, self._done())
        for number in sorted(self._dispatched):
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
        t.store(b, alive, e.context, Warp.ALIVE)
        at_barrier = t.load(b, e.context, Warp.BAR_MASK, I32)
        waiting = b.or_(at_barrier, t.load(b, e.context, Warp.COLLECTIVE_MASK, I32))
        runnable = b.and_(alive, b.not_(waiting))
        some, none = e.append_block(), e.append_block("blocked")
        b.cbranch(b.icmp_unsigned("!=", runnable, i32(0)), some, none)
        b.position_at_end(none)
        ended, blocked = e.append_block(), e.append_block()
        b.cbranch(b.icmp_unsigned("==", alive, i32(0)), ended, blocked)
        b.position_at_end(ended)
        self.leave(Status.DONE)
        b.position_at_end(blocked)
        self._save_all(Status.BLOCKED)
        b.position_at_end(some)
        free = [b.select(e.unpack(runnable, p), pc, self._pc_constant(NO_BLOCK)) for p, pc in enumerate(counters)]
        prefer = t.load(b, e.context, Warp.PREFER, I32)
        bit = b.shl(i32(1), b.and_(prefer, i32(31)))
        honoured = b.and_(b.icmp_signed(">=", prefer, i32(0)), b.icmp_unsigned("!=", b.and_(bit, runnable), i32(0)))
        offset = b.zext(b.shl(b.and_(prefer, i32(31)), i32(2)), I64)
        wanted = t.load(b, e.context, b.add(offset, t.i64(Warp.PC)), I32)
        lowest = b.select(honoured, wanted, self._lowest(free))
        here = [b.select(e.unpack(at_barrier, p), self._pc_constant(NO_BLOCK), pc) for p, pc in enumerate(counters)]
        return lowest, here

    def _lowest(self, counters: Sequence[Value]) -> Value:
        b = self.e.builder
        result = counters[0]
        for other in counters[1:]:
            result = b.select(b.icmp_unsigned("<", result, other), result, other)
        return t.intrinsic(b, f"llvm.vector.reduce.umin.{t.mangled(result.type)}", I32, [result])

    # ---- edges -------------------------------------------------------------------------------------------------------

    def edge(self, number: int, target: int) -> ir.Block:
        """Return the block to branch to for the edge from block ``number`` to ``target``."""
        divergent = number in self.unit.info.divergent
        if target == EXIT:
            return self._end_lanes() if divergent else self._done()
        counted = (number, target) in self.unit.graph.back_edges
        must_look = divergent and not self._alone(number, target)
        if not counted and not must_look:
            return self.heads[target]
        e, b = self.e, self.e.builder
        here = b.block
        block = e.append_block()
        b.position_at_end(block)
        if counted:
            left = b.sub(b.load(self.budget_slot, typ=I32), i32(1))
            b.store(left, self.budget_slot)
            go_on = e.append_block()
            b.cbranch(b.icmp_signed(">", left, i32(0)), go_on, self._yield(target, divergent)).set_weights([2000, 1])
            b.position_at_end(go_on)
        if not must_look:
            b.branch(self.heads[target])
        elif self.general:
            b.branch(self._wait(target))
        else:
            # No lanes wait below or at the target: they would have run first, or must be joined.
            clear = b.icmp_unsigned("<", i32(target), b.load(self.wait_slot, typ=I32))
            b.cbranch(clear, self.heads[target], self._wait(target)).set_weights([100, 1])
        b.position_at_end(here)
        return block

    def _alone(self, number: int, target: int) -> bool:
        """Whether nobody can be waiting at or before ``target``: its only predecessor just goes on to it."""
        block = self.unit.program.blocks[target]
        if not isinstance(self.unit.program.blocks[number].end, Jump):
            return False  # lanes that left a loop in another round may wait there
        if target != number + 1 or self.unit.graph.predecessors[target] != (number,):
            return False
        return not (self.general and (isinstance(block.end, Barrier) or (block.code and is_collective(block.code[0]))))

    # ---- ends of blocks ----------------------------------------------------------------------------------------------

    def emit_end(self, number: int) -> None:
        """Write the end of the current block."""
        end = self.unit.program.blocks[number].end
        b = self.e.builder
        match end:
            case Jump(target):
                b.branch(self.edge(number, target))
            case Branch():
                self._branch(number, end)
            case Switch():
                self._switch(number, end)
            case Barrier():
                self._barrier(number, end)
            case Stop():
                self.stop()
            case Invoke(callee):
                b.branch(self._wait(callee))
            case Return():
                raise AssertionError("the place to return to is not known here")

    def go_to(self, counters: Sequence[Value]) -> None:
        """Send each running lane to a block of its own, given as one vector per part."""
        for part, counter in enumerate(counters):
            self._set_pc(self.e.number, part, counter)
        self.e.builder.branch(self._dispatch_block())

    def stop(self) -> None:
        """End the launch at the current instruction."""
        e, b = self.e, self.e.builder
        t.store(b, i32(e.site), e.context, Warp.EVENT_SITE)
        lanes = e.active32()
        first = t.intrinsic(b, "llvm.cttz.i32", I32, [lanes, ir.Constant(I1, 0)])
        arguments = [e.context, i32(e.site), i32(Kind.STOP), b.and_(first, i32(31)), t.i64(0), i32(0), i32(0)]
        t.call_address(b, RUNTIME.address("event"), t.VOID, arguments)
        self.leave(Status.STOP)

    def _branch(self, number: int, end: Branch) -> None:
        e, b = self.e, self.e.builder
        guard = end.guard
        if e.shape(guard.register).uniform:
            condition = predicate_scalar(e, guard.register, guard.negated)
            b.cbranch(condition, self.edge(number, end.taken), self.edge(number, end.other))
            return
        parts = predicate_parts(e, guard.register, guard.negated)
        lanes = e.mask32()
        taken = b.and_(e.bits(parts), lanes)
        if EXIT in (end.taken, end.other):
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
        b.branch(self.edge(number, end.other))
        b.position_at_end(split)
        for part, condition in enumerate(parts):
            self._set_pc(number, part, b.select(condition, self._pc_constant(end.taken), self._pc_constant(end.other)))
        self._dispatched.update((end.taken, end.other))
        b.branch(self._dispatch_block())

    def _set_pc(self, number: int, part: int, value: Value) -> None:
        """Set the program counters of the running lanes; those of ended lanes say so."""
        e, b = self.e, self.e.builder
        if number in self.unit.info.divergent:
            running = e.unpack(e.mask32(), part)
            value = b.select(running, value, self._load_pc(part))
        elif number in self.unit.info.partial:
            value = b.select(e.unpack(e.mask32(), part), value, self._pc_constant(NO_BLOCK))
        self._store_pc(part, value)

    def _leave_some(self, number: int, end: Branch, taken: Value, lanes: Value) -> None:
        """Branch where one side ends the thread: the other lanes simply go on."""
        e, b = self.e, self.e.builder
        target = end.other if end.taken == EXIT else end.taken
        leaving = taken if end.taken == EXIT else b.and_(lanes, b.not_(taken))
        staying = b.and_(lanes, b.not_(leaving))
        go_on, gone = e.append_block(), self.edge(number, EXIT)
        b.cbranch(b.icmp_unsigned("==", staying, i32(0)), gone, go_on)
        b.position_at_end(go_on)
        b.store(staying, e.mask_slot)
        if number in self.unit.info.divergent:
            b.store(b.and_(b.load(e.alive_slot, typ=I32), b.not_(leaving)), e.alive_slot)
            for part in range(e.parts):
                left = e.unpack(leaving, part)
                self._store_pc(part, b.select(left, self._pc_constant(NO_BLOCK), self._load_pc(part)))
        else:
            b.store(staying, e.alive_slot)
            self._end_all_but(staying)
        e.forget_masks()
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
            pc = self._pc_constant(_number(end.targets[-1]))
            for value, target in enumerate(end.targets[:-1]):
                pc = b.select(
                    b.icmp_unsigned("==", index, self._pc_constant(value)), self._pc_constant(_number(target)), pc
                )
            self._set_pc(number, part, pc)
        self._dispatched.update(target for target in end.targets if target != EXIT)
        b.branch(self._dispatch_block())

    # ---- barriers of the block (PTX ISA section 9.7.13.1) ------------------------------------------------------------

    def _barrier(self, number: int, end: Barrier) -> None:
        e, b = self.e, self.e.builder
        operands, kind = _barrier_operands(end.instruction)
        if self.general:
            self._general_barrier(end, operands, kind)
            return
        if not all(e.shape(operand).uniform for operand in operands[:2]):
            b.branch(self._part_from(number))
            return
        if number in self.unit.info.divergent:
            together = e.append_block()
            alone = b.icmp_unsigned("==", b.load(self.wait_slot, typ=I32), i32(NO_BLOCK))
            b.cbranch(alone, together, self.part(number))
            b.position_at_end(together)
        name, count = (e.scalar_operand(operand, "b32", 0) for operand in operands[:2])
        t.store(b, e.mask32(), e.context, Warp.BAR_MASK)
        predicate = e.bits(_predicates(e, operands[2])) if len(operands) > 2 else i32(0)
        t.store(b, predicate, e.context, Warp.BAR_RESULT)
        for field, value in (
            (Warp.BAR_ID, name),
            (Warp.BAR_COUNT, count),
            (Warp.BAR_KIND, i32(kind)),
            (Warp.BAR_SITE, i32(e.site)),
        ):
            t.store(b, value, e.context, field)
        b.branch(self._suspend(end.target, Status.BARRIER))

    def _general_barrier(self, end: Barrier, operands: Sequence[Operand], kind: int) -> None:
        e, b = self.e, self.e.builder
        lanes = e.mask32()
        t.store(b, b.or_(t.load(b, e.context, Warp.BAR_MASK, I32), lanes), e.context, Warp.BAR_MASK)
        predicates = _predicates(e, operands[2]) if len(operands) > 2 else None
        for part in range(e.parts):
            running = e.unpack(lanes, part)
            kinds = self._pc_constant(kind)
            if predicates is not None:
                wide = b.zext(predicates[part], ir.VectorType(I32, e.lanes))
                kinds = b.or_(kinds, b.shl(wide, self._pc_constant(8)))
            for field, value in (
                (Warp.BAR_ID, e.vector_operand(operands[0], "b32", part)),
                (Warp.BAR_COUNT, e.vector_operand(operands[1], "b32", part)),
                (Warp.BAR_KIND, kinds),
                (Warp.BAR_SITE, self._pc_constant(e.site)),
            ):
                place = field + 4 * part * e.lanes
                old = t.load(b, e.context, place, ir.VectorType(I32, e.lanes), align=4)
                t.store(b, b.select(running, value, old), e.context, place, align=4)
        self._move_lanes(end.target)
        b.branch(self._dispatch_block())

    def barrier_result(self, instruction: Instruction) -> None:
        """Write the pseudo-instruction behind ``bar.red``: the scheduler left the result in the context."""
        e, b = self.e, self.e.builder
        name = instruction.operands[0]
        assert isinstance(name, Register)
        type_ = "b32" if "popc" in instruction.modifiers else "pred"
        shape = self.unit.info.shapes[name.name]
        for part in e.result_parts(name.name):
            if shape.varying and self.general:
                place = Warp.BAR_COUNT + 4 * part * e.lanes
                value = t.load(b, e.context, place, ir.VectorType(I32, e.lanes), align=4)
                zero = self._pc_constant(0)
            else:
                value = t.load(b, e.context, Warp.BAR_COUNT, I32)
                zero = i32(0)
            e.put(name.name, part, value if type_ == "b32" else b.icmp_unsigned("!=", value, zero), type_)

    # ---- waiting for lanes of the warp -------------------------------------------------------------------------------

    def gather_lanes(self, number: int, members: Value) -> None:
        """Let a collective go on only when all living lanes that ``members`` (bits) names have come."""
        e, b = self.e, self.e.builder
        if not e.divergent:
            return
        lanes = e.mask32()
        missing = b.and_(b.and_(members, b.load(e.alive_slot, typ=I32)), b.not_(lanes))
        incomplete = b.icmp_unsigned("!=", missing, i32(0))
        go_on = e.append_block()
        if not self.general:
            b.cbranch(incomplete, self.part(number), go_on)
            b.position_at_end(go_on)
            return
        wait = e.append_block("gather")
        forced = t.load(b, e.context, Warp.FORCE, I32)
        b.cbranch(b.and_(incomplete, b.icmp_unsigned("==", forced, i32(0))), wait, go_on)
        b.position_at_end(wait)
        old = t.load(b, e.context, Warp.COLLECTIVE_MASK, I32)
        t.store(b, b.or_(old, lanes), e.context, Warp.COLLECTIVE_MASK)
        t.store(b, i32(e.site), e.context, Warp.EVENT_SITE)
        b.branch(self._dispatch_block())
        b.position_at_end(go_on)
        old = t.load(b, e.context, Warp.COLLECTIVE_MASK, I32)
        t.store(b, b.and_(old, b.not_(lanes)), e.context, Warp.COLLECTIVE_MASK)
        t.store(b, i32(0), e.context, Warp.FORCE)


def _number(target: int) -> int:
    return NO_BLOCK if target == EXIT else target


def _predicates(e: Emitter, operand: Operand) -> list[Value]:
    negated = isinstance(operand, Negated)
    register = operand.register if isinstance(operand, Negated) else operand
    if not isinstance(register, Register):
        return [t.splat(e.builder, e.literal(register, "pred"), e.lanes)] * e.parts
    return predicate_parts(e, register, negated)


def _barrier_operands(instruction: Instruction) -> tuple[tuple[Operand, ...], int]:
    """Return (name, threads expected or 0, predicate if any) and what the lane does."""
    zero = Immediate(0, "int")
    operands = instruction.operands
    modifiers = instruction.modifiers
    if "red" in modifiers:
        kinds = {"popc": BarrierKind.RED_POPC, "and": BarrierKind.RED_AND, "or": BarrierKind.RED_OR}
        kind = next(kinds[m] for m in modifiers if m in kinds)
        name, *count, predicate = operands
        return (name, count[0] if count else zero, predicate), kind
    kind = BarrierKind.ARRIVE if "arrive" in modifiers else BarrierKind.SYNC
    return (operands[0] if operands else zero, operands[1] if len(operands) > 1 else zero), kind


def _stored(type_: ir.Type) -> ir.Type:
    """Return the type a value is saved in: predicates as bytes."""
    if type_ == I1:
        return I8
    if isinstance(type_, ir.VectorType) and type_.element == I1:
        return ir.VectorType(I8, type_.count)
    return type_


def _stride(type_: ir.Type) -> int:
    """Return how far apart the parts of a saved register lie."""
    if not isinstance(type_, ir.VectorType):
        return 8
    element = type_.element
    width = element.width if isinstance(element, ir.IntType) else {"half": 16, "float": 32, "double": 64}[str(element)]
    return int(width // 8 * type_.count)
