"""Scalar types of random programs: names, literals, and the reading of a value from an input word."""

from __future__ import annotations

import random
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True, slots=True)
class ScalarType:
    """A C++ type. ``unsigned`` is the type in which its arithmetic cannot overflow (after integral promotion)."""

    name: str
    bits: int
    kind: str
    unsigned: str = ""

    @property
    def is_integer(self) -> bool:
        """Whether the type is an integer."""
        return self.kind in "su"


INT, UNSIGNED = ScalarType("int", 32, "s", "unsigned"), ScalarType("unsigned", 32, "u", "unsigned")
LONG, UNSIGNED_LONG = ScalarType("long long", 64, "s", "ull"), ScalarType("ull", 64, "u", "ull")
INTEGERS = (
    ScalarType("signed char", 8, "s", "unsigned"),
    ScalarType("unsigned char", 8, "u", "unsigned"),
    ScalarType("short", 16, "s", "unsigned"),
    ScalarType("unsigned short", 16, "u", "unsigned"),
    INT,
    UNSIGNED,
    LONG,
    UNSIGNED_LONG,
)
FLOAT, DOUBLE = ScalarType("float", 32, "f"), ScalarType("double", 64, "d")
HALF, BFLOAT = ScalarType("__half", 16, "h"), ScalarType("__nv_bfloat16", 16, "b")
TYPES = (*INTEGERS, FLOAT, DOUBLE, HALF, BFLOAT)
_WEIGHTS = (2, 2, 2, 2, 5, 5, 3, 3, 5, 2, 3, 2)

_EDGES = (0, 1, 2, 3, 7, 8, 31, 32, 33, 63, 64, 127, 128, 255, 256, 0x7FFF, 0x8000, 0xFFFF, 0x7FFFFFFF, 0x80000000,
          0xFFFFFFFF)  # fmt: skip
_WIDE_EDGES = (*_EDGES, 1 << 32, (1 << 63) - 1, 1 << 63, (1 << 64) - 1, (1 << 53) + 1)
_FLOATS = (0.0, -0.0, 1.0, -1.0, 0.5, 1.5, 2.5, -3.25, 65504.0, 65520.0, 16777217.0, 2147483648.0,
           -2147483904.0, 4294967296.0, 9.2e18, 1e-45, 1.1754942e-38, 1e-7, 5.96e-8, 3.4e38, 0.1)  # fmt: skip


def random_type(rng: random.Random) -> ScalarType:
    return rng.choices(TYPES, _WEIGHTS)[0]


def literal(rng: random.Random, one: ScalarType) -> str:
    """Return a literal of the type, often an edge of its range."""
    if one.is_integer:
        value = (
            rng.choice(_WIDE_EDGES if one.bits == 64 else _EDGES) if rng.random() < 0.6 else rng.getrandbits(one.bits)
        )
        value &= (1 << one.bits) - 1
        suffix = "ull" if one.bits == 64 else "u"
        return f"({one.name}){value}{suffix}" if rng.random() < 0.7 else f"({one.name}){value:#x}{suffix}"
    number = rng.choice(_FLOATS) if rng.random() < 0.7 else round(rng.uniform(-1000, 1000), 3)
    # In hexadecimal: NVRTC 12.9 rounds 16777217.0f to 16777218.0f.
    if one.kind == "d":
        return f"({number.hex()})"
    exact = f"({float(np.float32(number)).hex()}f)"
    if one.kind == "f":
        return exact
    return f"{'__float2half_rn' if one.kind == 'h' else '__float2bfloat16_rn'}({exact})"


def from_word(one: ScalarType, word: str) -> str:
    """Return an expression of the type that reinterprets ``word``, an unsigned expression."""
    if one.kind == "f":
        return f"__uint_as_float({word})"
    if one.kind == "d":
        return f"__longlong_as_double((long long)(((ull)({word}) << 32) | (({word}) * 2654435761u)))"
    if one.kind in "hb":
        return f"{'__ushort_as_half' if one.kind == 'h' else '__ushort_as_bfloat16'}((unsigned short)({word}))"
    if one.bits == 64:
        return f"({one.name})(((ull)({word}) << 29) ^ ({word}))"
    return f"({one.name})({word})"


INPUTS = 64
_INPUT_EDGES = (*_EDGES, 0x3F800000, 0xBF800000, 0x3FC00000, 0x4B800001, 0x7F800000, 0xFF800000, 0x7FC00000, 0x00800000,
                0x007FFFFF, 0x80000001, 0x4F000000, 0xCF000000, 0x4F7FFFFF, 0x7F7FFFFF, 0x3C003C00, 0x7BFF7C00,
                0x04000001, 0x3F803F80, 0xBC00B800, 0x42C80000)  # fmt: skip


def random_inputs(rng: random.Random) -> list[int]:
    """Return the words of a program's input, edges of the integer and the floating-point types among them."""
    small = [rng.choice(_INPUT_EDGES) if rng.random() < 0.6 else rng.getrandbits(32) for _ in range(INPUTS)]
    return [value if rng.random() < 0.85 else rng.randrange(100) for value in small]
