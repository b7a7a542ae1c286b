"""Random programs: declarations, one kernel, its input; and files that hold several of them."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from benchmarks.cuda_programs.declarations import FORMS, HOST_ONLY, PREAMBLE, launcher
from benchmarks.cuda_programs.expressions import Callee, Scope, Variable
from benchmarks.cuda_programs.statements import StatementWriter, Text
from benchmarks.cuda_programs.types import INT, INTEGERS, TYPES, UNSIGNED, from_word, random_inputs

MOST_RESULTS = 40
"""Values that a thread stores, at most."""
SUMS = 4


@dataclass(frozen=True, slots=True)
class CudaProgram:
    """A kernel ``k<seed>(const unsigned* in, ull* out, ull* sums)`` with the declarations that it needs."""

    seed: int
    grid: int
    block: int
    inputs: tuple[int, ...]
    declarations: tuple[Text, ...]
    body: tuple[Text, ...]

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return f"k{self.seed}"

    def text(self) -> str:
        """Return the program as CUDA C++, without the headers and helpers that all share."""
        lines = [line for one in self.declarations for line in one.lines()]
        parameters = "const unsigned* __restrict__ in, unsigned long long* out, unsigned long long* sums"
        lines.append(f"__global__ void {self.name}({parameters}) {{")
        lines += [line for one in self.body for line in one.lines("    ")]
        return "\n".join((*lines, "}")).replace("@", f"_{self.seed}") + "\n"


def random_program(seed: int) -> CudaProgram:
    """Return the program of a seed."""
    rng = random.Random(seed)
    block = rng.choice([32, 64, 64, 64, 96, 50])
    declarations, callees = _declarations(rng)
    writer = StatementWriter(rng, rng.choice([1, 2, 2]))
    scope = Scope(callees=callees)
    body = [
        Text("const unsigned t = blockIdx.x * blockDim.x + threadIdx.x, lane = threadIdx.x & 31u;"),
    ]
    scope.variables += [Variable("t", UNSIGNED, writable=False), Variable("lane", UNSIGNED, writable=False)]
    for kind in rng.sample(TYPES, rng.randint(3, 7)):
        name = writer.name("v")
        word = f"in[(t * {rng.choice([0, 1, 3, 5, 7])}u + {rng.randrange(64)}u) & 63u]"
        body.append(Text(f"{kind.name} {name} = {from_word(kind, word)};"))
        scope.variables.append(Variable(name, kind))
    scope.arrays.append(("in", UNSIGNED, 64))
    for _ in range(rng.randint(1, 4)):
        body += writer.some(scope, 2, 2)
        choice = rng.random()
        # Collectives with full masks need full warps.
        if choice < 0.4 and block % 32 == 0:
            body.append(writer.collective(scope))
        elif choice < 0.6:
            body.append(writer.exchange(scope, block))
        elif choice < 0.7:
            body.append(writer.atomics(scope, block))
        elif choice < 0.75:
            body.append(writer.block_vote(scope))
        elif choice < 0.82 and block % 32 == 0:
            body.append(writer.warp_exchange(scope, block))
        elif choice < 0.88:
            body.append(writer.vector_load(scope))
    results = [one for one in scope.variables if one.name not in ("t", "lane")][-MOST_RESULTS:]
    whole = [one for one in results if one.type.is_integer]
    for index in range(min(SUMS, len(whole)) if rng.random() < 0.4 else 0):
        body.append(Text(f"atomicAdd(&sums[{index}], (ull){whole[-1 - index].name});"))
    if rng.random() < 0.3:
        body.append(Text(f"if (in[t & 63u] & {rng.choice([1, 2, 16])}u) return;"))
    body += [Text(f"out[t * {MOST_RESULTS}u + {i}u] = bits({one.name});") for i, one in enumerate(results)]
    return CudaProgram(seed, rng.choice([1, 1, 2]), block, tuple(random_inputs(rng)), tuple(declarations), tuple(body))


def _declarations(rng: random.Random) -> tuple[list[Text], list[Callee]]:
    texts, callees = [], []
    for form in rng.sample(FORMS, rng.choice([0, 1, 1, 2])):
        text, declared = form(rng)
        texts.append(Text(text))
        callees += declared
    for index in range(rng.choice([0, 0, 1])):
        texts.append(_function(rng, index, callees))
    return texts, callees


def _function(rng: random.Random, index: int, callees: list[Callee]) -> Text:
    """A device function of random statements with an early return."""
    arguments = tuple(rng.choice(TYPES) for _ in range(rng.randint(1, 3)))
    result = rng.choice([*INTEGERS, INT, UNSIGNED, TYPES[8]])
    names = [f"x{i}" for i in range(len(arguments))]
    scope = Scope([Variable(name, kind) for name, kind in zip(names, arguments, strict=True)], callees=list(callees))
    writer = StatementWriter(rng, 2)
    body = writer.some(scope, 2, 3)
    value = writer.declaration(scope, result)
    early = writer.declaration(scope, result)
    condition = writer.condition(scope)
    kept = scope.variables[-2].name, scope.variables[-1].name
    signature = ", ".join(f"{kind.name} {name}" for kind, name in zip(arguments, names, strict=True))
    specifier = rng.choice(
        ["__device__", "__device__ __noinline__", "static __device__ __forceinline__", "__host__ __device__ inline"]
    )
    specifier = "__device__ inline" if "host" in specifier else specifier
    inside = (*body, value, early, Text(f"if ({condition}) return {kept[1]};"))
    callees.append(Callee(f"helper{index}@({', '.join(['{}'] * len(arguments))})", result, arguments))
    return Text(f"{specifier} {result.name} helper{index}@({signature}) {{", inside, f"    return {kept[0]};\n}}")


def device_file(programs: Sequence[CudaProgram]) -> str:
    """Return a .cu file with the programs and host code that launches them."""
    parts = [HOST_ONLY, PREAMBLE]
    for one in programs:
        parts += [one.text(), launcher(one.name, one.grid, one.block)]
    calls = "\n".join(f"    run_{one.name}({{}});" for one in programs)
    return "".join((*parts, f"int main(int argc, char** argv) {{\n{calls}\n    return 0;\n}}\n"))


def host_file(programs: Sequence[CudaProgram]) -> str:
    """Return the programs as C++ for the host, with a function ``launch``."""
    names = ", ".join(one.name for one in programs)
    return "".join(('#include "host_cuda.h"\n', PREAMBLE, *(one.text() for one in programs), f"KERNELS({names})\n"))


def smaller(program: CudaProgram) -> Iterator[CudaProgram]:
    """Yield the program with one declaration or statement less, or with a statement replaced by what is inside it."""
    for kept in _without_one(program.body):
        yield replace(program, body=kept)
    for kept in _without_one(program.declarations):
        yield replace(program, declarations=kept)
    if program.grid > 1:
        yield replace(program, grid=1)


def _without_one(texts: tuple[Text, ...]) -> Iterator[tuple[Text, ...]]:
    half = len(texts) // 2
    if half > 1:
        yield texts[half:]
        yield texts[:half]
    for i, one in enumerate(texts):
        yield (*texts[:i], *texts[i + 1 :])
        if one.inside:
            yield (*texts[:i], *one.inside, *texts[i + 1 :])
            for inside in _without_one(one.inside):
                yield (*texts[:i], replace(one, inside=inside), *texts[i + 1 :])
