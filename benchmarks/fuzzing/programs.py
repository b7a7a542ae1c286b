"""Random PTX kernels with a meaning: divergent loops and branches, shared memory, barriers, shuffles, votes.

A program is a list of items at the top, where all threads are together: statements, which each thread runs for itself,
and collectives. Between two barriers a thread writes its own places of one half of shared memory and reads anybody's
of the other, so that there are no races.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from fractions import Fraction

from benchmarks.fuzzing.semantics import MASK, encode, signed
from benchmarks.fuzzing.statements import (
    CURIOUS,
    FLOATS,
    INPUTS,
    INTEGERS,
    PLACES,
    Condition,
    Statement,
    Thread,
    World,
    Writer,
    block,
)


class Barrier:
    """All threads wait; the halves of shared memory change roles."""

    def emit(self, out: Writer) -> None:
        out.put("bar.sync 0;")
        for name in ("%s_own", "%s_readable"):
            out.put(f"xor.b32 {name}, {name}, %s_flip;")

    def run(self, threads: list[Thread], world: World) -> None:
        world.half = 1 - world.half


class Shuffle:
    """A butterfly or indexed exchange of all 32 lanes."""

    def __init__(self, rng: random.Random) -> None:
        self.mode, self.lane = rng.choice(["bfly", "idx"]), rng.randrange(32)
        self.source, self.target = rng.randrange(INTEGERS), rng.randrange(INTEGERS)

    def emit(self, out: Writer) -> None:
        out.put(f"shfl.sync.{self.mode}.b32 %r{self.target}, %r{self.source}, {self.lane}, 31, -1;")

    def run(self, threads: list[Thread], world: World) -> None:
        values = [thread.integers[self.source] for thread in threads]
        for i, thread in enumerate(threads):
            lane = (i & 31) ^ self.lane if self.mode == "bfly" else self.lane
            thread.integers[self.target] = values[(i & ~31) + lane]


class Vote:
    """A ballot of all 32 lanes."""

    def __init__(self, rng: random.Random) -> None:
        self.condition, self.target = Condition(rng), rng.randrange(INTEGERS)

    def emit(self, out: Writer) -> None:
        out.put(f"vote.sync.ballot.b32 %r{self.target}, {self.condition.emit(out)}, -1;")

    def run(self, threads: list[Thread], world: World) -> None:
        votes = [self.condition.run(thread) for thread in threads]
        for i, thread in enumerate(threads):
            first = i & ~31
            thread.integers[self.target] = sum(votes[first + lane] << lane for lane in range(32))


@dataclass
class Program:
    """A kernel ``k(const u32* x, u32* y)``; every thread writes all its registers to ``y``."""

    seed: int
    small: bool = False
    threads: int = 0
    data: list[int] = field(default_factory=list)

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        self.threads = rng.choice([32, 64, 64, 96, 20, 50])
        self.halves = 64 * (1 << (self.threads * PLACES * 4 - 1).bit_length() - 6)
        self.data = [rng.choice(CURIOUS) if rng.random() < 0.4 else rng.randrange(1 << 32) for _ in range(INPUTS)]
        self.items: list[Statement | Barrier | Shuffle | Vote] = []
        for _ in range(1 if self.small else rng.randint(1, 4)):
            self.items += block(rng, rng.randint(0, 1 if self.small else 2), False)
            choice = rng.random()
            if choice < 0.5:
                self.items.append(Barrier())
            elif choice < 0.8 and self.threads % 32 == 0:
                self.items.append(rng.choice([Shuffle, Vote])(rng))

    def ptx(self) -> str:
        out = Writer()
        for one in self.items:
            one.emit(out)
        return "\n".join(self._head(out) + out.lines + list(self._tail()))

    def _head(self, out: Writer) -> list[str]:
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
  .reg .b32 %t0, %s_tid, %s_lane, %s_ctaid, %s_own, %s_readable, %s_places, %s_flip;
  .reg .b64 %rd<5>;
  .shared .align 4096 .b8 memory[{2 * self.halves}];
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  mov.u32 %s_tid, %tid.x;
  mov.u32 %s_ctaid, %ctaid.x;
  and.b32 %s_lane, %s_tid, 31;
  mov.u32 %s_places, {self.threads * PLACES};
  mov.u32 %s_flip, {self.halves};
  mov.u32 %t0, memory;
  mad.lo.u32 %s_own, %s_tid, {4 * PLACES}, %t0;
  add.u32 %s_readable, %t0, {self.halves};""".splitlines()
        for half in (0, self.halves):
            for place in range(PLACES):
                lines.append(f"  st.shared.b32 [%s_own+{half + 4 * place}], {half + place};")
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
        result: list[int] = []
        for number in range(blocks):
            result += self._block(number)
        return result

    def _block(self, number: int) -> list[int]:

        threads = []
        for tid in range(self.threads):
            integers = [tid + i & MASK for i in range(INTEGERS)]
            floats = [encode(Fraction(signed(v)), "rn", 0) for v in integers[:FLOATS]]
            threads.append(Thread(integers, floats, {"%tid": tid, "%lane": tid & 31, "%ctaid": number}))
        places = self.threads * PLACES
        shared = [half + i % PLACES for half in (0, self.halves) for i in range(places)]
        world = World(self.data, shared, 0, self.threads)
        for one in self.items:
            if isinstance(one, (Barrier, Shuffle, Vote)):
                one.run(threads, world)
            else:
                for thread in threads:
                    one.run(thread, world)
        return [value for thread in threads for value in (*thread.integers, *thread.floats)]
