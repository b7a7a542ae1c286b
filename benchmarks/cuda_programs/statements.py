"""Random statements of one thread, and those of a warp or block, as a tree of text whose nodes can be deleted."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass

from benchmarks.cuda_programs.expressions import ExpressionWriter, Scope, Variable
from benchmarks.cuda_programs.types import (
    DOUBLE,
    FLOAT,
    INT,
    INTEGERS,
    LONG,
    UNSIGNED,
    UNSIGNED_LONG,
    ScalarType,
    literal,
    random_type,
)


@dataclass(frozen=True, slots=True)
class Text:
    """A statement or declaration: ``head``, statements inside it, ``tail``."""

    head: str
    inside: tuple[Text, ...] = ()
    tail: str = ""

    def lines(self, indent: str = "") -> Iterator[str]:
        """Yield the lines, indented."""
        yield from (indent + line for line in self.head.splitlines())
        for one in self.inside:
            yield from one.lines(indent + "    ")
        if self.tail:
            yield indent + self.tail


class StatementWriter:
    """Writes statements; ``depth`` limits expressions. Names are numbered through."""

    def __init__(self, rng: random.Random, depth: int) -> None:
        self._rng, self._depth = rng, depth
        self._expressions = ExpressionWriter(rng)
        self._names = 0

    def name(self, letter: str) -> str:
        """Return a name that the program does not have yet."""
        self._names += 1
        return f"{letter}{self._names}"

    def some(self, scope: Scope, levels: int, most: int, in_loop: bool = False) -> list[Text]:
        """Return statements for a block of their own; declarations are added to ``scope``."""
        return [self.one(scope, levels, in_loop) for _ in range(self._rng.randint(1, most))]

    def one(self, scope: Scope, levels: int, in_loop: bool = False) -> Text:
        """Return a statement with up to ``levels`` of control flow inside it."""
        rng = self._rng
        choice = rng.random()
        if levels > 0 and choice < 0.14:
            return self._if(scope, levels, in_loop)
        if levels > 0 and choice < 0.26:
            return self._loop(scope, levels)
        if levels > 0 and choice < 0.31:
            return self._switch(scope, levels, in_loop)
        if in_loop and choice < 0.4:
            jump = rng.choice(["break", "continue", "break"])
            return Text(f"if ({self._expressions.condition(scope, 1)}) {jump};")
        if choice < 0.5:
            return self.declaration(scope)
        if choice < 0.58:
            return self._array(scope)
        if choice < 0.64 and levels > 0:
            return self._pointer(scope)
        return self._assignment(scope)

    def condition(self, scope: Scope) -> str:
        """Return a short boolean expression."""
        return self._expressions.condition(scope, 1)

    def declaration(self, scope: Scope, kind: ScalarType | None = None) -> Text:
        """Return a declaration of a variable, by default of a random type."""
        kind = kind or random_type(self._rng)
        name, value = self.name("v"), self._expressions.of(kind, scope, self._depth)
        scope.variables.append(Variable(name, kind))
        return Text(f"{kind.name} {name} = {value};")

    def _assignment(self, scope: Scope) -> Text:
        rng = self._rng
        targets = [v for v in scope.variables if v.writable]
        if not targets:
            return self.declaration(scope)
        target = rng.choice(targets)
        value = self._expressions.of(target.type, scope, self._depth)
        if target.type.kind in "fd" and rng.random() < 0.3:
            return Text(f"{target.name} {rng.choice(['+=', '-=', '*='])} {value};")
        if target.type in (UNSIGNED, UNSIGNED_LONG) and rng.random() < 0.4:
            return Text(f"{target.name} {rng.choice(['+=', '-=', '*=', '^=', '|=', '&='])} {value};")
        return Text(f"{target.name} = {value};")

    def _if(self, scope: Scope, levels: int, in_loop: bool) -> Text:
        rng = self._rng
        condition = self._expressions.condition(scope, 1)
        then = tuple(self.some(scope.inner(), levels - 1, 3, in_loop))
        if rng.random() < 0.5:
            return Text(f"if ({condition}) {{", then, "}")
        other = Text("} else {", tuple(self.some(scope.inner(), levels - 1, 2, in_loop)), "}")
        return Text("{", (Text(f"if ({condition}) {{", then), other), "}")

    def _loop(self, scope: Scope, levels: int) -> Text:
        rng = self._rng
        counter, inner = self.name("i"), scope.inner()
        limit = (
            str(rng.randint(1, 6)) if rng.random() < 0.4 else f"(int)({self._expressions.of(UNSIGNED, scope, 1)} & 7u)"
        )
        inner.variables.append(Variable(counter, INT, writable=False))
        body = tuple(self.some(inner, levels - 1, 3, in_loop=True))
        form = rng.random()
        if form < 0.6:
            return Text(f"for (int {counter} = 0; {counter} < {limit}; ++{counter}) {{", body, "}")
        if form < 0.8:
            head = f"int {counter} = {limit};\nwhile ({counter}-- > 0) {{"
            return Text("{", (Text(head, body, "}"),), "}")
        head = f"int {counter} = {limit};\ndo {{"
        return Text("{", (Text(head, body, f"}} while (--{counter} > 0);"),), "}")

    def _switch(self, scope: Scope, levels: int, in_loop: bool) -> Text:
        rng = self._rng
        count = rng.randint(2, 5)
        cases = []
        for value in rng.sample(range(8), count):
            end = "break;" if rng.random() < 0.75 else ""
            label = f"case {value}: {{" if rng.random() < 0.85 else f"case {value}:\ncase {value + 8}: {{"
            cases.append(Text(label, tuple(self.some(scope.inner(), levels - 1, 2)), f"}} {end}"))
        if rng.random() < 0.6:
            cases.append(Text("default: {", tuple(self.some(scope.inner(), levels - 1, 2)), "}"))
        value = f"{self._expressions.of(UNSIGNED, scope, 1)} & {rng.choice([3, 7, 15])}u"
        return Text(f"switch ({value}) {{", tuple(cases), "}")

    def _array(self, scope: Scope) -> Text:
        rng = self._rng
        existing = [one for one in scope.arrays if one[0].startswith("a")]
        if existing and rng.random() < 0.6:
            name, kind, size = rng.choice(existing)
            index = self._expressions.index(scope, size, 1)
            return Text(f"{name}[{index}] = {self._expressions.of(kind, scope, self._depth - 1)};")
        kind, size, name = random_type(rng), rng.choice([2, 4, 8]), self.name("a")
        first = ", ".join(self._expressions.of(kind, scope, 1) for _ in range(size))
        scope.arrays.append((name, kind, size))
        return Text(f"{kind.name} {name}[{size}] = {{{first}}};")

    def _pointer(self, scope: Scope) -> Text:
        """A pointer to one of two variables, through which one of them is changed."""
        rng = self._rng
        writable = [v for v in scope.variables if v.writable and v.name[0] == "v" and "." not in v.name]
        if not writable:
            return self._assignment(scope)
        one = rng.choice(writable)
        other = rng.choice([v for v in writable if v.type == one.type])
        name = self.name("p")
        condition = self._expressions.condition(scope, 1)
        value = self._expressions.of(one.type, scope, self._depth - 1)
        return Text(
            "{",
            (
                Text(f"{one.type.name}* {name} = {condition} ? &{one.name} : &{other.name};"),
                Text(f"*{name} = {value};"),
            ),
            "}",
        )

    # Statements that all threads of the block execute together.

    def collective(self, scope: Scope) -> Text:
        """Return a warp collective over full warps, or over the lanes that agree on a condition."""
        rng = self._rng
        choice = rng.random()
        if choice < 0.3:
            return self._collective_of(scope, "0xffffffffu", None)
        condition = f"(lane & {1 << rng.randrange(5)}u) {rng.choice(['==', '!='])} 0u"
        if choice < 0.55:
            return self._collective_of(scope, "0xffffffffu", None)
        mask, result = self.name("m"), self.name("v")
        kind = rng.choice([INT, UNSIGNED, LONG, FLOAT])
        if rng.random() < 0.5:
            condition = self._expressions.condition(scope, 1)
        inner = scope.inner()
        inside = self._collective_of(inner, mask, f"__ffs((int){mask}) - 1")
        added = inner.variables[-1]
        use = f"{result} = {self._expressions.of(kind, Scope([added]), 1)};"
        scope.variables.append(Variable(result, kind))
        return Text(
            f"const bool b{mask} = {condition};\n{kind.name} {result} = {literal(rng, kind)};\n"
            f"const unsigned {mask} = __ballot_sync(0xffffffffu, b{mask});\nif (b{mask}) {{",
            (inside, Text(use)),
            "}",
        )

    def _collective_of(self, scope: Scope, mask: str, source: str | None) -> Text:
        rng = self._rng
        choice, name = rng.random(), self.name("v")
        if choice < 0.5:
            kind = rng.choice([INT, UNSIGNED, LONG, UNSIGNED_LONG, FLOAT, rng.choice([DOUBLE, FLOAT])])
            value = self._expressions.of(kind, scope, 1)
            width = rng.choice(["", "", f", {1 << rng.randrange(1, 6)}"])
            if source is not None:
                call = f"__shfl_sync({mask}, {value}, {source})"
            else:
                form = rng.randrange(4)
                lane = (
                    f"(int)({self._expressions.of(UNSIGNED, scope, 1)} & 31u)"
                    if rng.random() < 0.5
                    else str(rng.randrange(32))
                )
                call = (
                    f"__shfl_sync({mask}, {value}, {lane}{width})",
                    f"__shfl_up_sync({mask}, {value}, {rng.randrange(32)}{width})",
                    f"__shfl_down_sync({mask}, {value}, {rng.randrange(32)}{width})",
                    f"__shfl_xor_sync({mask}, {value}, {rng.randrange(32)}{width})",
                )[form]
        elif choice < 0.7:
            condition = self._expressions.condition(scope, 1)
            vote = rng.choice(["__ballot", "__any", "__all"])
            kind = UNSIGNED if vote == "__ballot" else INT
            call = f"{vote}_sync({mask}, {condition})"
        elif choice < 0.9:
            operation = rng.choice(["add", "min", "max", "and", "or", "xor"])
            kind = UNSIGNED if operation in ("and", "or", "xor") else rng.choice([INT, UNSIGNED])
            call = f"__reduce_{operation}_sync({mask}, {self._expressions.of(kind, scope, 1)})"
        elif choice < 0.96:
            kind, argument = UNSIGNED, rng.choice([INT, UNSIGNED, LONG])
            value = self._expressions.of(argument, scope, 1)
            if rng.random() < 0.6:  # so that some lanes have equal values
                value = f"({argument.name})({value} & 3)"
            call = f"__match_any_sync({mask}, {value})"
        else:
            scope.variables.append(Variable(name, UNSIGNED))
            value = self._expressions.of(UNSIGNED, Scope(scope.variables[:-1]), 1)
            if rng.random() < 0.5:
                value = f"__shfl_sync({mask}, {value}, {source or 3})"
            return Text(
                f"int q{name};\nunsigned {name} = __match_all_sync({mask}, {value}, &q{name});\n"
                f"{name} += (unsigned)q{name} * 7u;"
            )
        scope.variables.append(Variable(name, kind))
        return Text(f"{kind.name} {name} = {call};")

    def exchange(self, scope: Scope, block: int) -> Text:
        """Return an exchange of values through shared memory: own elements are written, any are read."""
        rng = self._rng
        kind = rng.choice([*INTEGERS, FLOAT, random_type(rng)])
        size = 1 << (block - 1).bit_length()
        name, result = self.name("s"), self.name("v")
        own = (
            f"{name}[threadIdx.x]"
            if rng.random() < 0.7 or size != block
            else f"{name}[threadIdx.x ^ {rng.randrange(block)}u]"
        )
        write = f"__shared__ {kind.name} {name}[{size}];\n{own} = {self._expressions.of(kind, scope, self._depth)};"
        if size != block:
            write += f"\nif (threadIdx.x < {size - block}u) {name}[{block}u + threadIdx.x] = {literal(rng, kind)};"
        index = self._expressions.index(scope, size, 1)
        scope.variables.append(Variable(result, kind))
        head = f"{write}\n__syncthreads();\n{kind.name} {result} = {name}[{index}];"
        if rng.random() < 0.5:
            scope.arrays.append((name, kind, size))  # read-only from now on
            return Text(head)
        again = f"__syncthreads();\n{name}[threadIdx.x] = {self._expressions.of(kind, scope, 1)};\n__syncthreads();"
        head += (
            f"\n{again}\n{result} = {name}[{self._expressions.index(scope, block if size == block else size // 2, 1)}];"
        )
        scope.arrays.append((name, kind, size))
        return Text(head)

    def warp_exchange(self, scope: Scope, block: int) -> Text:
        """Return an exchange through shared memory within each warp, of structures."""
        rng = self._rng
        one, other = rng.choice(INTEGERS), rng.choice([*INTEGERS, FLOAT])
        name, result = self.name("s"), self.name("v")
        values = self._expressions.of(one, scope, 1), self._expressions.of(other, scope, self._depth)
        index = self._expressions.index(scope, 32, 1)
        scope.variables += [Variable(f"{result}.a", one), Variable(f"{result}.b", other)]
        return Text(
            f"struct S{name} {{ {one.name} a; {other.name} b; }};\n__shared__ S{name} {name}[{block}];\n"
            f"{name}[threadIdx.x] = S{name}{{{values[0]}, {values[1]}}};\n__syncwarp();\n"
            f"S{name} {result} = {name}[(threadIdx.x & ~31u) | ({index})];"
        )

    def vector_load(self, scope: Scope) -> Text:
        """Return a load of four words of the input."""
        name = self.name("v")
        index = self._expressions.index(scope, 16, 1)
        scope.variables += [Variable(f"{name}.{part}", UNSIGNED) for part in "xyzw"]
        return Text(f"uint4 {name} = reinterpret_cast<const uint4*>(in)[{index}];")

    def block_vote(self, scope: Scope) -> Text:
        """Return a barrier with a reduction."""
        name = self.name("v")
        vote = self._rng.choice(["count", "and", "or"])
        condition = self._expressions.condition(scope, 1)
        scope.variables.append(Variable(name, INT))
        return Text(f"int {name} = __syncthreads_{vote}({condition});")

    def atomics(self, scope: Scope, block: int) -> Text:
        """Return atomics of one kind on four counters in shared memory, whose result does not depend on their order."""
        rng = self._rng
        kind = rng.choice([INT, UNSIGNED, UNSIGNED_LONG])
        names = ["Add", "Min", "Max", "And", "Or", "Xor", *(["Sub", "Inc"] if kind == UNSIGNED else [])]
        operation, name, result = rng.choice(names), self.name("s"), self.name("v")
        last = "77u" if operation == "Inc" else self._expressions.of(kind, scope, self._depth)
        index = self._expressions.index(scope, 4, 1)
        guard = f"if ({self._expressions.condition(scope, 1)}) " if rng.random() < 0.5 else ""
        scope.variables.append(Variable(result, kind))
        scope.arrays.append((name, kind, 4))
        return Text(
            f"__shared__ {kind.name} {name}[4];\n"
            f"if (threadIdx.x < 4u) {name}[threadIdx.x] = {literal(rng, kind)};\n__syncthreads();\n"
            f"{guard}atomic{operation}(&{name}[{index}], {last});\n__syncthreads();\n"
            f"{kind.name} {result} = {name}[lane & 3u];"
        )
