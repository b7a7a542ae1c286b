"""PTX mutants: lines deleted, duplicated or swapped, tokens, types and opcodes replaced, bytes changed, truncation.

The seeds are kernels compiled by NVRTC, whose mutants are nearly valid PTX, and small random kernels, most of whose
mutants still run.
"""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from functools import cache

from benchmarks.emulator import compile_ptx, only
from benchmarks.fuzzing.programs import RandomKernel

_TOKEN = re.compile(r"%?[$\w]+|\S")
_TYPES = [
    "s32", "u32", "b32", "f32", "s64", "u64", "b64", "f64", "f16", "bf16", "b16", "u16", "s8", "u8", "pred",
    "f16x2",
]  # fmt: skip
_BOUNDARY_TOKENS = [
    "0", "1", "-1", "31", "32", "33", "4294967295", "18446744073709551615", "0x7fffffff", "0f7F800000",
    "99999999999999999999", "-2147483648", "0d7FF8000000000000", "{", "}", "[", "]", "%tid.x", "%laneid",
    "%clock64", "_", "|", "!",
]  # fmt: skip
_OPCODES = [
    "add", "sub", "mul.lo", "mad.lo", "fma.rn", "ld.global", "st.shared", "ld.local", "setp.lt", "selp", "cvt.rn",
    "bar.sync", "shfl.sync.up", "atom.global.add", "red.shared.max", "vote.sync.any", "prmt", "bra", "call", "ret",
    "exit", "trap", "mov", "cvta.to.global", "wmma.mma", "mma.sync", "tex.2d", "brkpt", "membar.gl", "div.approx",
    "ex2.approx", "popc", "brx.idx",
]  # fmt: skip
_CONTROL = (0, 9, 34, 37, 59, 123, 125, 0xFF, 0x20AC)


@cache
def seeds() -> tuple[str, ...]:
    """Return the texts to mutate: compiled kernels, and small random kernels."""
    ptx = compile_ptx()
    compiled = [only(ptx, name) for name in ("saxpy", "gelu", "transpose", "histogram", "reduction")] * 10
    small = [RandomKernel(seed, small=True).ptx() for seed in range(200)]
    return (*compiled, *small)


def mutant(seed: int) -> str:
    """Return mutant number ``seed``."""
    rng = random.Random(seed)
    lines = rng.choice(seeds()).splitlines()
    for _ in range(rng.choice((1, 1, 1, 2, 3, 6))):
        rng.choice(_MUTATIONS)(rng, lines)
    text = "\n".join(lines)
    if rng.random() < 0.05:
        text = text[: rng.randrange(len(text) + 1)]
    return text


def _delete(rng: random.Random, lines: list[str]) -> None:
    if lines:
        del lines[rng.randrange(len(lines))]


def _duplicate(rng: random.Random, lines: list[str]) -> None:
    if lines:
        lines.insert(rng.randrange(len(lines)), rng.choice(lines))


def _swap(rng: random.Random, lines: list[str]) -> None:
    if lines:
        i, j = rng.randrange(len(lines)), rng.randrange(len(lines))
        lines[i], lines[j] = lines[j], lines[i]


def _token_mutation(
    change: Callable[[random.Random, str, list[str]], str],
) -> Callable[[random.Random, list[str]], None]:
    """Return a mutation that replaces one token of one line."""

    def mutate(rng: random.Random, lines: list[str]) -> None:
        if not lines:
            return
        number = rng.randrange(len(lines))
        found = list(_TOKEN.finditer(lines[number]))
        if found:
            at = rng.choice(found)
            line = lines[number]
            lines[number] = line[: at.start()] + change(rng, at.group(), lines) + line[at.end() :]

    return mutate


def _random_token(rng: random.Random, token: str, lines: list[str]) -> str:
    """Return a token of a random line."""
    return rng.choice(_TOKEN.findall(rng.choice(lines)) or [token])


def _type(rng: random.Random, lines: list[str]) -> None:
    at = [i for i, line in enumerate(lines) if re.search(r"\.[subf]\d+\b", line)]
    if at:
        i = rng.choice(at)
        lines[i] = re.sub(r"\.[subf]\d+\b", f".{rng.choice(_TYPES)}", lines[i], count=1)


def _opcode(rng: random.Random, lines: list[str]) -> None:
    at = [i for i, line in enumerate(lines) if re.match(r"\s+(@\S+ )?[a-z]", line)]
    if at:
        i = rng.choice(at)
        lines[i] = re.sub(
            r"^(\s+(?:@\S+ )?)[a-z]\w*(\.(?:lo|wide|rn|sync|global|shared))*", rf"\g<1>{rng.choice(_OPCODES)}", lines[i]
        )


def _garble(rng: random.Random, lines: list[str]) -> None:
    if lines:
        i = rng.randrange(len(lines))
        at = rng.randrange(len(lines[i]) + 1)
        byte = chr(rng.choice((*_CONTROL, rng.randrange(32, 127))))
        lines[i] = lines[i][:at] + byte + lines[i][at + 1 :]


_MUTATIONS: tuple[Callable[[random.Random, list[str]], None], ...] = (
    _delete,
    _duplicate,
    _swap,
    _token_mutation(_random_token),
    _token_mutation(_random_token),
    _token_mutation(lambda rng, token, lines: rng.choice(_BOUNDARY_TOKENS)),
    _type,
    _opcode,
    _garble,
)
