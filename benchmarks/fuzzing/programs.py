"""Random PTX kernels with expected results: divergent loops and branches, shared memory, barriers, shuffles, votes.

A kernel is a list of statements, which each thread executes independently, and of collectives at the top level, where
all threads have reconverged. Between two barriers a thread writes its own slots of one half of shared memory and reads
any slot of the other half, so kernels are free of races and the result does not depend on the schedule.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from benchmarks.fuzzing.semantics import MASK, encode, signed
from benchmarks.fuzzing.statements import (
    BOUNDARY_VALUES,
    FLOATS,
    INPUTS,
    INTEGERS,
    SLOTS,
    BlockState,
    PtxWriter,
    SetpCondition,
    Statement,
    ThreadState,
    random_statements,
)


class BarrierStatement:
    """A block barrier, after which the halves of shared memory change roles."""

    def emit(self, out: PtxWriter) -> None:
        out.put("bar.sync 0;")
        for name in ("%s_own", "%s_readable"):
            # Of offsets: the alignment of shared variables is not that of their address in every GPU's window.
            out.put(f"sub.u32 {name}, {name}, %s_memory;")
            out.put(f"xor.b32 {name}, {name}, %s_flip;")
            out.put(f"add.u32 {name}, {name}, %s_memory;")

    def run(self, threads: list[ThreadState], state: BlockState) -> None:
        state.half = 1 - state.half


class ShuffleStatement:
    """``shfl.sync.bfly`` or ``shfl.sync.idx`` over all 32 lanes."""

    def __init__(self, rng: random.Random) -> None:
        self.mode, self.lane = rng.choice(["bfly", "idx"]), rng.randrange(32)
        self.source, self.target = rng.randrange(INTEGERS), rng.randrange(INTEGERS)

    def emit(self, out: PtxWriter) -> None:
        out.put(f"shfl.sync.{self.mode}.b32 %r{self.target}, %r{self.source}, {self.lane}, 31, -1;")

    def run(self, threads: list[ThreadState], state: BlockState) -> None:
        values = [thread.integers[self.source] for thread in threads]
        for i, thread in enumerate(threads):
            lane = (i & 31) ^ self.lane if self.mode == "bfly" else self.lane
            thread.integers[self.target] = values[(i & ~31) + lane]


class VoteStatement:
    """``vote.sync.ballot`` over all 32 lanes."""

    def __init__(self, rng: random.Random) -> None:
        self.condition, self.target = SetpCondition(rng), rng.randrange(INTEGERS)

    def emit(self, out: PtxWriter) -> None:
        out.put(f"vote.sync.ballot.b32 %r{self.target}, {self.condition.emit(out)}, -1;")

    def run(self, threads: list[ThreadState], state: BlockState) -> None:
        votes = [self.condition.run(thread) for thread in threads]
        for i, thread in enumerate(threads):
            first = i & ~31
            thread.integers[self.target] = sum(votes[first + lane] << lane for lane in range(32))


@dataclass
class RandomKernel:
    """A kernel ``k(const u32* x, u32* y)``, in which every thread finally writes all its registers to ``y``.

    ``data`` is the content of ``x``, ``halves`` the size of half of the shared memory in bytes.
    """

    seed: int
    small: bool = False
    threads: int = 0
    data: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        self.threads = rng.choice([32, 64, 64, 96, 20, 50])
        self.halves = 64 * (1 << (self.threads * SLOTS * 4 - 1).bit_length() - 6)
        self.data = [
            rng.choice(BOUNDARY_VALUES) if rng.random() < 0.4 else rng.randrange(1 << 32) for _ in range(INPUTS)
        ]
        self.items: list[Statement | BarrierStatement | ShuffleStatement | VoteStatement] = []
        for _ in range(1 if self.small else rng.randint(1, 4)):
            self.items += random_statements(rng, rng.randint(0, 1 if self.small else 2), False)
            choice = rng.random()
            if choice < 0.5:
                self.items.append(BarrierStatement())
            elif choice < 0.8 and self.threads % 32 == 0:
                # Collectives with a full mask need full warps.
                self.items.append(rng.choice([ShuffleStatement, VoteStatement])(rng))

    def ptx(self) -> str:
        """Return the kernel as PTX."""
        out = PtxWriter()
        for item in self.items:
            item.emit(out)
        return "\n".join(self._head(out) + out.lines + list(self._tail()))

    def _head(self, out: PtxWriter) -> list[str]:
        lines = f"""//
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{{
  .reg .pred %p<{out.predicates + 1}>;
  .reg .b32 %r<{INTEGERS}>;
  .reg .f32 %f<{FLOATS}>;
  .reg .b32 %c<{out.counters + 1}>;
  .reg .b32 %t0, %s_tid, %s_lane, %s_ctaid, %s_own, %s_readable, %s_places, %s_flip, %s_memory;
  .reg .b64 %rd<5>;
  .shared .align 8 .b8 memory[{2 * self.halves}];
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  mov.u32 %s_tid, %tid.x;
  mov.u32 %s_ctaid, %ctaid.x;
  and.b32 %s_lane, %s_tid, 31;
  mov.u32 %s_places, {self.threads * SLOTS};
  mov.u32 %s_flip, {self.halves};
  mov.u32 %s_memory, memory;
  mad.lo.u32 %s_own, %s_tid, {4 * SLOTS}, %s_memory;
  add.u32 %s_readable, %s_memory, {self.halves};""".splitlines()
        for half in (0, self.halves):
            for slot in range(SLOTS):
                lines.append(f"  st.shared.b32 [%s_own+{half + 4 * slot}], {half + slot};")
        lines += [f"  add.u32 %r{i}, %s_tid, {i};" for i in range(INTEGERS)]
        lines += [f"  cvt.rn.f32.s32 %f{i}, %r{i};" for i in range(FLOATS)]
        lines.append("  bar.sync 0;")
        return lines

    def _tail(self) -> Iterator[str]:
        yield f"  mad.lo.u32 %t0, %s_ctaid, {self.threads}, %s_tid;"
        yield f"  mad.wide.u32 %rd3, %t0, {4 * (INTEGERS + FLOATS)}, %rd2;"
        for i in range(INTEGERS):
            yield f"  st.global.b32 [%rd3+{4 * i}], %r{i};"
        for i in range(FLOATS):
            yield f"  st.global.f32 [%rd3+{4 * (INTEGERS + i)}], %f{i};"
        yield "  ret;"
        yield "}"

    def expected(self, blocks: int) -> list[int]:
        """Return the contents of ``y`` after a launch with ``blocks`` blocks, by direct evaluation."""
        result: list[int] = []
        for number in range(blocks):
            result += self._block(number)
        return result

    def _block(self, number: int) -> list[int]:
        threads = []
        for tid in range(self.threads):
            integers = [tid + i & MASK for i in range(INTEGERS)]
            floats = [encode(Fraction(signed(v)), "rn", 0) for v in integers[:FLOATS]]
            threads.append(ThreadState(integers, floats, {"%tid": tid, "%lane": tid & 31, "%ctaid": number}))
        slots = self.threads * SLOTS
        shared = [half + i % SLOTS for half in (0, self.halves) for i in range(slots)]
        state = BlockState(self.data, shared, 0, self.threads)
        for item in self.items:
            if isinstance(item, (BarrierStatement, ShuffleStatement, VoteStatement)):
                item.run(threads, state)
            else:
                for thread in threads:
                    item.run(thread, state)
        return [value for thread in threads for value in (*thread.integers, *thread.floats)]
