"""Random CUDA C++ programs with divergent control flow, and a reference that evaluates them thread by thread."""

from __future__ import annotations

import random
from dataclasses import dataclass, field

_MASK = 0xFFFFFFFF
_VARIABLES = ("a", "b", "c", "d")
OUTPUTS = 8
INPUTS = 64


class _Left(Exception):
    """Control left a statement by break, continue or return."""

    def __init__(self, how: str) -> None:
        super().__init__(how)
        self.how = how


@dataclass
class Thread:
    """The state of one thread."""

    values: dict[str, int]
    data: list[int]
    out: list[int] = field(default_factory=lambda: [0] * OUTPUTS)


class Expression:
    def __init__(self, rng: random.Random, depth: int) -> None:
        kind = rng.randrange(3) if depth <= 0 else rng.randrange(10)
        self.kind, self.parts = kind, ()
        if kind == 0:
            self.value: object = rng.choice([0, 1, 2, 3, 5, 31, 64, 0x80000000, rng.randrange(1 << 32)])
        elif kind == 1:
            self.value = rng.choice(["tid", "lane", "warp", "bid", "tid"])
        elif kind == 2:
            self.value = rng.choice(_VARIABLES)
        else:
            self.value = rng.choice(["+", "-", "*", "&", "|", "^", ">>", "<<", "load", "?", "<", "%"])
            count = {"load": 1, "?": 3}.get(str(self.value), 2)
            self.parts = tuple(Expression(rng, depth - 1) for _ in range(count))

    def text(self) -> str:
        if self.kind == 0:
            return f"{self.value}u"
        if self.kind < 3:
            return str(self.value)
        texts = [part.text() for part in self.parts]
        if self.value == "load":
            return f"x[({texts[0]}) & {INPUTS - 1}u]"
        if self.value == "?":
            return f"(({texts[0]}) & 1u ? ({texts[1]}) : ({texts[2]}))"
        if self.value in (">>", "<<"):
            return f"(({texts[0]}) {self.value} (({texts[1]}) & 31u))"
        if self.value == "%":
            return f"(({texts[0]}) % ((({texts[1]}) & 15u) + 1u))"
        return f"(unsigned)(({texts[0]}) {self.value} ({texts[1]}))"

    def run(self, thread: Thread) -> int:
        if self.kind == 0:
            return int(str(self.value))
        if self.kind < 3:
            return thread.values[str(self.value)]
        if self.value == "?":
            return self.parts[1 if self.parts[0].run(thread) & 1 else 2].run(thread)
        values = [part.run(thread) for part in self.parts]
        if self.value == "load":
            return thread.data[values[0] & (INPUTS - 1)]
        x, y = values
        match self.value:
            case "+":
                return (x + y) & _MASK
            case "-":
                return (x - y) & _MASK
            case "*":
                return (x * y) & _MASK
            case "&":
                return x & y
            case "|":
                return x | y
            case "^":
                return x ^ y
            case ">>":
                return x >> (y & 31)
            case "<<":
                return (x << (y & 31)) & _MASK
            case "%":
                return x % ((y & 15) + 1)
            case _:
                return int(x < y)


class Statement:
    """One statement; ``loop`` counters are private, so every loop ends."""

    counter = 0

    def __init__(self, rng: random.Random, depth: int, in_loop: bool) -> None:
        kinds = ["set", "set", "store", "set"]
        if depth > 0:
            kinds += ["if", "if", "ifelse", "for", "for", "while", "switch"]
        if in_loop:
            kinds += ["break", "continue"]
        kinds.append("return") if rng.random() < 0.15 else None
        self.kind = rng.choice(kinds)
        self.target = rng.choice(_VARIABLES)
        self.expression = Expression(rng, 2)
        self.condition = Expression(rng, 2)
        self.limit = rng.randrange(1, 9)
        Statement.counter += 1
        self.name = f"i{Statement.counter}"
        inside = in_loop or self.kind in ("for", "while")
        self.body: list[Statement] = []
        self.other: list[Statement] = []
        self.cases: list[list[Statement]] = []
        if self.kind in ("if", "ifelse", "for", "while"):
            self.body = block(rng, depth - 1, inside)
        if self.kind == "ifelse":
            self.other = block(rng, depth - 1, inside)
        if self.kind == "switch":
            # `break` inside a case would leave the switch: no loops' jumps in there.
            self.cases = [block(rng, depth - 1, False) for _ in range(rng.randrange(2, 7))]

    def text(self, pad: str) -> str:
        inner = pad + "  "
        condition = f"({self.condition.text()}) & 1u"
        match self.kind:
            case "set":
                return f"{pad}{self.target} = {self.expression.text()};"
            case "store":
                return f"{pad}out[({self.condition.text()}) & {OUTPUTS - 1}u] = {self.expression.text()};"
            case "return":
                return f"{pad}if ({condition}) return;"
            case "break" | "continue":
                return f"{pad}if ({condition}) {self.kind};"
            case "if":
                return f"{pad}if ({condition}) {{\n{_text(self.body, inner)}\n{pad}}}"
            case "ifelse":
                return f"{pad}if ({condition}) {{\n{_text(self.body, inner)}\n{pad}}} else {{\n{_text(self.other, inner)}\n{pad}}}"
            case "for":
                bound = f"(({self.expression.text()}) % {self.limit}u)"
                return (
                    f"{pad}{{ unsigned n_{self.name} = {bound}; for (unsigned {self.name} = 0; {self.name} < n_{self.name}; "
                    f"{self.name}++) {{\n{_text(self.body, inner)}\n{pad}}} }}"
                )
            case "while":
                return (
                    f"{pad}{{ unsigned {self.name} = {self.limit}u; while ({self.name}-- && ({condition})) "
                    f"{{\n{_text(self.body, inner)}\n{pad}}} }}"
                )
            case _:
                cases = "\n".join(
                    f"{inner}case {i}u: {{\n{_text(body, inner + '  ')}\n{inner}}} break;"
                    for i, body in enumerate(self.cases)
                )
                return f"{pad}switch (({self.expression.text()}) % {len(self.cases) + 1}u) {{\n{cases}\n{pad}}}"

    def run(self, thread: Thread) -> None:
        match self.kind:
            case "set":
                thread.values[self.target] = self.expression.run(thread)
            case "store":
                index = self.condition.run(thread) & (OUTPUTS - 1)
                thread.out[index] = self.expression.run(thread)
            case "return" | "break" | "continue":
                if self.condition.run(thread) & 1:
                    raise _Left(self.kind)
            case "if" | "ifelse":
                _run(self.body if self.condition.run(thread) & 1 else self.other, thread)
            case "for":
                for _ in range(self.expression.run(thread) % self.limit):
                    if not _run_round(self.body, thread):
                        break
            case "while":
                for _ in range(self.limit):
                    if not self.condition.run(thread) & 1 or not _run_round(self.body, thread):
                        break
            case _:
                index = self.expression.run(thread) % (len(self.cases) + 1)
                if index < len(self.cases):
                    _run(self.cases[index], thread)


def block(rng: random.Random, depth: int, in_loop: bool) -> list[Statement]:
    return [Statement(rng, depth, in_loop) for _ in range(rng.randrange(1, 4))]


def _text(statements: list[Statement], pad: str) -> str:
    return "\n".join(statement.text(pad) for statement in statements)


def _run(statements: list[Statement], thread: Thread) -> None:
    for statement in statements:
        statement.run(thread)


def _run_round(statements: list[Statement], thread: Thread) -> bool:
    try:
        _run(statements, thread)
    except _Left as left:
        if left.how == "return":
            raise
        return left.how == "continue"
    return True


@dataclass
class RandomProgram:
    """A kernel ``k(const unsigned* x, unsigned* y)``, as source and as reference."""

    seed: int

    def __post_init__(self) -> None:
        rng = random.Random(self.seed)
        Statement.counter = 0
        self.statements = [s for _ in range(4) for s in block(rng, 3, False)]

    def source(self) -> str:
        declarations = "\n".join(f"  unsigned {name} = {i + 1}u;" for i, name in enumerate(_VARIABLES))
        final = "\n".join(f"  out[{i}] = {name};" for i, name in enumerate(_VARIABLES))
        return f"""extern "C" __global__ void k(const unsigned* x, unsigned* y) {{
  unsigned tid = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z), bid = blockIdx.x;
  unsigned lane = tid & 31u, warp = tid >> 5;
  unsigned* out = y + {OUTPUTS}u * (bid * blockDim.x * blockDim.y * blockDim.z + tid);
{declarations}
{_text(self.statements, "  ")}
{final}
}}
"""

    def expected(self, data: list[int], blocks: int, threads: int) -> list[int]:
        result: list[int] = []
        for bid in range(blocks):
            for tid in range(threads):
                values = {"tid": tid, "lane": tid & 31, "warp": tid >> 5, "bid": bid}
                values |= {name: i + 1 for i, name in enumerate(_VARIABLES)}
                thread = Thread(values, data)
                try:
                    _run(self.statements, thread)
                    for i, name in enumerate(_VARIABLES):
                        thread.out[i] = thread.values[name]
                except _Left:
                    pass
                result += thread.out
        return result
