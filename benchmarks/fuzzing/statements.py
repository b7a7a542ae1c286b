"""Statements of random kernels: emission as PTX, and evaluation for one thread."""

from __future__ import annotations

import random
from dataclasses import dataclass

from benchmarks.fuzzing.semantics import COMPARISONS, OPS

INTEGERS, FLOATS, SLOTS = 6, 4, 2
INPUTS = 64
_INTEGERS = (0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFF, 255)
_FLOATS = (0, 0x80000000, 0x3F800000, 0xBF000000, 0x7F800000, 0xFF800000, 0x7FFFFFFF, 1, 0x80000001, 0x007FFFFF,
           0x00800000, 0x7F7FFFFF, 0x4B800001, 0x33800000, 0x3FFFFFFF, 0xCF000000)  # fmt: skip


BOUNDARY_VALUES = _INTEGERS + _FLOATS


class _Break(Exception):  # noqa: N818 - control flow of the evaluated program
    pass


@dataclass(slots=True)
class ThreadState:
    """Registers of one thread."""

    integers: list[int]
    floats: list[int]
    special: dict[str, int]


@dataclass(slots=True)
class BlockState:
    """State shared by the threads of a block: input, shared memory, and the half that is written now."""

    data: list[int]
    shared: list[int]
    half: int
    threads: int


class Operand:
    """A register, literal or special register."""

    def __init__(self, rng: random.Random, kind: str, limit: int | None = None) -> None:
        self.kind = kind
        choice = rng.random()
        if limit is not None:
            self.how, self.value = "literal", rng.randint(0, limit)
        elif choice < 0.7:
            self.how, self.value = "register", rng.randrange(INTEGERS if kind == "r" else FLOATS)
        elif kind == "f" or choice < 0.87:
            self.how = "literal"
            pool = _INTEGERS if kind == "r" else _FLOATS
            self.value = rng.choice(pool) if rng.random() < 0.6 else rng.randrange(1 << 32)
            if kind == "f" and self.value & 0x7F800000 == 0x7F800000:
                self.value = 0x40490FDB
        else:
            self.how, self.value = rng.choice(["%tid", "%lane", "%ctaid"]), 0

    def text(self) -> str:
        if self.how == "register":
            return f"%{self.kind}{self.value}"
        if self.how == "literal":
            return f"0f{self.value:08X}" if self.kind == "f" else str(self.value)
        return f"%s_{self.how[1:]}"

    def run(self, thread: ThreadState) -> int:
        if self.how == "register":
            return (thread.integers if self.kind == "r" else thread.floats)[self.value]
        return self.value if self.how == "literal" else thread.special[self.how]


class PtxWriter:
    """Collects PTX lines; allocates labels, predicates and loop counters."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.labels = 0
        self.predicates = 0
        self.counters = 0

    def put(self, line: str) -> None:
        self.lines.append(f"  {line}")

    def label(self) -> str:
        self.labels += 1
        return f"$L{self.labels}"

    def predicate(self) -> str:
        self.predicates += 1
        return f"%p{self.predicates}"

    def counter(self) -> str:
        self.counters += 1
        return f"%c{self.counters}"


class SetpCondition:
    """``setp`` of two operands."""

    def __init__(self, rng: random.Random) -> None:
        self.name = rng.choice(list(COMPARISONS))
        kind = "f" if self.name.endswith("f32") else "r"
        self.sources = Operand(rng, kind), Operand(rng, kind)

    def emit(self, out: PtxWriter) -> str:
        name = out.predicate()
        out.put(f"setp.{self.name} {name}, {self.sources[0].text()}, {self.sources[1].text()};")
        return name

    def run(self, thread: ThreadState) -> bool:
        return COMPARISONS[self.name](*(s.run(thread) for s in self.sources))


class Assignment:
    """One instruction, in a fifth of cases under a guard."""

    def __init__(self, rng: random.Random) -> None:
        self.op = rng.choice(OPS)
        limits = dict(self.op.immediates)
        self.sources = [Operand(rng, kind, limits.get(i)) for i, kind in enumerate(self.op.sources)]
        self.target = rng.randrange(INTEGERS if self.op.result == "r" else FLOATS)
        self.guard = SetpCondition(rng) if rng.random() < 0.2 else None
        self.negated = rng.random() < 0.5

    def emit(self, out: PtxWriter) -> None:
        prefix = ""
        if self.guard is not None:
            prefix = f"@{'!' if self.negated else ''}{self.guard.emit(out)} "
        sources = ", ".join(s.text() for s in self.sources)
        out.put(f"{prefix}{self.op.name} %{self.op.result}{self.target}, {sources};")

    def run(self, thread: ThreadState, state: BlockState) -> None:
        if self.guard is not None and self.guard.run(thread) == self.negated:
            return
        value = self.op.compute(*(s.run(thread) for s in self.sources))
        (thread.integers if self.op.result == "r" else thread.floats)[self.target] = value


class LoadStatement:
    """A load from the input, or from the half of shared memory that was written before the last barrier."""

    def __init__(self, rng: random.Random) -> None:
        self.shared = rng.random() < 0.5
        self.index = Operand(rng, "r")
        self.kind = rng.choice("rf")
        self.target = rng.randrange(INTEGERS if self.kind == "r" else FLOATS)

    def emit(self, out: PtxWriter) -> None:
        type_ = "b32" if self.kind == "r" else "f32"
        if self.shared:
            out.put(f"rem.u32 %t0, {self.index.text()}, %s_places;")
            out.put("mad.lo.u32 %t0, %t0, 4, %s_readable;")
            out.put(f"ld.shared.{type_} %{self.kind}{self.target}, [%t0];")
        else:
            out.put(f"and.b32 %t0, {self.index.text()}, {INPUTS - 1};")
            out.put("mad.wide.u32 %rd3, %t0, 4, %rd1;")
            out.put(f"ld.global.{type_} %{self.kind}{self.target}, [%rd3];")

    def run(self, thread: ThreadState, state: BlockState) -> None:
        index = self.index.run(thread)
        if self.shared:
            slots = state.threads * SLOTS
            value = state.shared[index % slots + (1 - state.half) * slots]
        else:
            value = state.data[index % INPUTS]
        (thread.integers if self.kind == "r" else thread.floats)[self.target] = value


class StoreStatement:
    """A store to one of the thread's own slots in shared memory."""

    def __init__(self, rng: random.Random) -> None:
        self.kind = rng.choice("rf")
        self.value = Operand(rng, self.kind)
        self.slot = rng.randrange(SLOTS)

    def emit(self, out: PtxWriter) -> None:
        type_ = "b32" if self.kind == "r" else "f32"
        out.put(f"st.shared.{type_} [%s_own+{4 * self.slot}], {self.value.text()};")

    def run(self, thread: ThreadState, state: BlockState) -> None:
        index = state.half * state.threads * SLOTS + thread.special["%tid"] * SLOTS + self.slot
        state.shared[index] = self.value.run(thread)


class IfStatement:
    """A branch on a per-thread condition."""

    def __init__(self, rng: random.Random, depth: int, in_loop: bool) -> None:
        self.condition = SetpCondition(rng)
        self.then = random_statements(rng, depth - 1, in_loop)
        self.other = random_statements(rng, depth - 1, in_loop) if rng.random() < 0.5 else []

    def emit(self, out: PtxWriter) -> None:
        skip, end = out.label(), out.label()
        out.put(f"@!{self.condition.emit(out)} bra {skip};")
        emit_all(self.then, out)
        if self.other:
            out.put(f"bra {end};")
        out.lines.append(f"{skip}:")
        emit_all(self.other, out)
        out.lines.append(f"{end}:")

    def run(self, thread: ThreadState, state: BlockState) -> None:
        for statement in self.then if self.condition.run(thread) else self.other:
            statement.run(thread, state)


class LoopStatement:
    """A loop of at most seven iterations, whose trip count is a value of the thread."""

    def __init__(self, rng: random.Random, depth: int) -> None:
        self.bound = Operand(rng, "r")
        self.limit = rng.randint(1, 7)
        self.body = random_statements(rng, depth - 1, True)

    def emit(self, out: PtxWriter) -> None:
        head, end, counter, bound = out.label(), out.label(), out.counter(), out.counter()
        predicate = out.predicate()
        out.put(f"and.b32 {bound}, {self.bound.text()}, 7;")
        out.put(f"min.u32 {bound}, {bound}, {self.limit};")
        out.put(f"mov.u32 {counter}, 0;")
        out.lines.append(f"{head}:")
        out.put(f"setp.ge.u32 {predicate}, {counter}, {bound};")
        out.put(f"@{predicate} bra {end};")
        out.put(f"add.u32 {counter}, {counter}, 1;")
        _ENDS.append(end)
        emit_all(self.body, out)
        _ENDS.pop()
        out.put(f"bra {head};")
        out.lines.append(f"{end}:")

    def run(self, thread: ThreadState, state: BlockState) -> None:
        try:
            for _ in range(min(self.bound.run(thread) & 7, self.limit)):
                for statement in self.body:
                    statement.run(thread, state)
        except _Break:
            pass


class BreakStatement:
    """A conditional branch out of the innermost loop."""

    def __init__(self, rng: random.Random) -> None:
        self.condition = SetpCondition(rng)

    def emit(self, out: PtxWriter) -> None:
        out.put(f"@{self.condition.emit(out)} bra {_ENDS[-1]};")

    def run(self, thread: ThreadState, state: BlockState) -> None:
        if self.condition.run(thread):
            raise _Break


_ENDS: list[str] = []
"""End labels of the loops around the statement that is emitted, innermost last."""

Statement = Assignment | LoadStatement | StoreStatement | IfStatement | LoopStatement | BreakStatement


def random_statements(rng: random.Random, depth: int, in_loop: bool) -> list[Statement]:
    """Return one to four statements, compound ones up to ``depth`` levels deep."""
    result: list[Statement] = []
    for _ in range(rng.randint(1, 4)):
        choice = rng.random()
        if depth > 0 and choice < 0.25:
            result.append(IfStatement(rng, depth, in_loop))
        elif depth > 0 and choice < 0.4:
            result.append(LoopStatement(rng, depth))
        elif in_loop and choice < 0.5:
            result.append(BreakStatement(rng))
        elif choice < 0.65:
            result.append(LoadStatement(rng))
        elif choice < 0.75:
            result.append(StoreStatement(rng))
        else:
            result.append(Assignment(rng))
    return result


def emit_all(statements: list[Statement], out: PtxWriter) -> None:
    for statement in statements:
        statement.emit(out)
