"""Reference semantics of single PTX instructions on Python integers, written from the manual, not from the emulator.

Registers are bit patterns. Floating-point results are rounded once, from exact rationals (PTX ISA sections 9.7.1 and
9.7.3), so that the reference shares no arithmetic with the code that is tested.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

MASK = 0xFFFFFFFF
NAN = 0x7FFFFFFF
INFINITY = 0x7F800000
_SIGN = 0x80000000


@dataclass(frozen=True, slots=True)
class OpSemantics:
    """A typed opcode with the kinds of its result and sources (``r`` integer, ``f`` float) and its function on bits.

    ``immediates`` are the (index, largest value) of sources that have to be literals.
    """

    name: str
    result: str
    sources: str
    compute: Callable[..., int]
    immediates: tuple[tuple[int, int], ...] = ()


def signed(value: int) -> int:
    return value - (1 << 32) if value & _SIGN else value


def decode(bits: int) -> float:
    return float(struct.unpack("<f", struct.pack("<I", bits))[0])


def is_nan(bits: int) -> bool:
    return bits & ~_SIGN & MASK > INFINITY


def flush(bits: int) -> int:
    """Flush a subnormal to zero of its sign (``.ftz``)."""
    return bits & _SIGN if bits & INFINITY == 0 else bits


def encode(exact: Fraction, mode: str, zero_sign: int) -> int:
    """Round an exact value to binary32 (IEEE 754 section 4.3); ``zero_sign`` is the sign bit of an exact zero."""
    if exact == 0:
        return zero_sign
    sign = _SIGN if exact < 0 else 0
    size = abs(exact)
    exponent = size.numerator.bit_length() - size.denominator.bit_length()
    if size < Fraction(2) ** exponent:
        exponent -= 1
    exponent = max(exponent, -126)
    scaled = size / Fraction(2) ** (exponent - 23)
    digits, rest = divmod(scaled.numerator, scaled.denominator)
    half = Fraction(rest, scaled.denominator)
    up = {
        "rn": half > Fraction(1, 2) or (half == Fraction(1, 2) and digits & 1 == 1),
        "rz": False,
        "rm": half > 0 and sign != 0,
        "rp": half > 0 and sign == 0,
    }[mode]
    digits += up
    bits = digits + ((exponent + 126) << 23)  # the leading bit of a normal number is carried into the exponent
    if bits >= INFINITY:
        outward = mode == "rn" or (mode == "rm" and sign) or (mode == "rp" and not sign)
        bits = INFINITY if outward else INFINITY - 1
    return sign | bits


def fma(a: int, b: int, c: int, mode: str = "rn") -> int:
    """Return a * b + c, rounded once."""
    x, y, z = decode(a), decode(b), decode(c)
    if math.isnan(x) or math.isnan(y) or math.isnan(z):
        return NAN
    if math.isinf(x) or math.isinf(y):
        if x == 0 or y == 0:
            return NAN
        product = math.copysign(math.inf, x) * math.copysign(1, y)
        return NAN if math.isinf(z) and z != product else _infinite(product)
    if math.isinf(z):
        return _infinite(z)
    sign = (a ^ b) & _SIGN
    product = Fraction(x) * Fraction(y)
    total = product + Fraction(z)
    both = sign if product == 0 and z == 0 and sign == c & _SIGN else _SIGN if mode == "rm" else 0
    return encode(total, mode, both)


def add(a: int, b: int, mode: str = "rn") -> int:
    return fma(a, 0x3F800000, b, mode)


def multiply(a: int, b: int, mode: str = "rn") -> int:
    sign = (a ^ b) & _SIGN
    result = fma(a, b, sign, mode)
    return result


def divide(a: int, b: int, mode: str = "rn") -> int:
    x, y = decode(a), decode(b)
    sign = (a ^ b) & _SIGN
    if math.isnan(x) or math.isnan(y) or (x == 0 and y == 0) or (math.isinf(x) and math.isinf(y)):
        return NAN
    if y == 0 or math.isinf(x):
        return sign | INFINITY
    return sign if x == 0 or math.isinf(y) else encode(Fraction(x) / Fraction(y), mode, sign)


def square_root(a: int) -> int:
    x = decode(a)
    if x == 0 or x == math.inf:
        return a
    if math.isnan(x) or x < 0:
        return NAN
    # 120 extra bits: a truncated root plus a sticky half rounds as the exact one, since ties cannot occur.
    scaled = Fraction(x) * Fraction(4) ** 120
    floor = math.isqrt(scaled.numerator // scaled.denominator)
    exact = floor * floor == scaled
    return encode(Fraction(2 * floor + (0 if exact else 1), 2) / Fraction(2) ** 120, "rn", 0)


def minimum(a: int, b: int, *, greatest: bool = False) -> int:
    if is_nan(a) or is_nan(b):
        return NAN if is_nan(a) and is_nan(b) else b if is_nan(a) else a
    below = (decode(a), -(a >> 31)) < (decode(b), -(b >> 31))
    return (b if below else a) if greatest else (a if below else b)


def to_integer(a: int) -> int:
    """``cvt.rzi.s32.f32``: saturating; NaN converts to 0."""
    x = decode(a)
    if math.isnan(x):
        return 0
    if math.isinf(x):
        return 0x7FFFFFFF if x > 0 else _SIGN
    return max(-(1 << 31), min((1 << 31) - 1, math.trunc(x))) & MASK


def _infinite(x: float) -> int:
    return INFINITY if x > 0 else INFINITY | _SIGN


def _field(value: int, start: int, length: int, sign: bool) -> int:
    """``bfe``: extract a bit field; bits above the register are its sign or zero."""
    start, length = start & 255, length & 255
    if not length:
        return 0
    top = value >> min(start + length - 1, 31) & 1 if sign else 0
    bits = value >> start & ((1 << length) - 1)
    known = max(min(32 - start, length), 0)
    return (bits | (-1 << known if top else 0)) & MASK


def _insert(source: int, into: int, start: int, length: int) -> int:
    start, length = start & 255, length & 255
    field = ((1 << length) - 1) << start & MASK
    return (into & ~field & MASK) | (source << start & field)


def _permute(a: int, b: int, selector: int) -> int:
    pool = (b << 32 | a).to_bytes(8, "little")
    result = 0
    for i in range(4):
        choice = selector >> 4 * i & 15
        byte = pool[choice & 7]
        if choice & 8:
            byte = 0xFF if byte & 0x80 else 0
        result |= byte << 8 * i
    return result


def _logic(a: int, b: int, c: int, table: int) -> int:
    result = 0
    for i in range(8):
        if table >> i & 1:
            result |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return result & MASK


def _flushed(compute: Callable[..., int]) -> Callable[..., int]:
    return lambda *values: flush(compute(*map(flush, values)))


def _dot(a: int, b: int, c: int, sign: bool) -> int:
    total = c
    for i in range(4):
        x, y = a >> 8 * i & 255, b >> 8 * i & 255
        total += (x - (x >> 7) * 256) * (y - (y >> 7) * 256) if sign else x * y
    return total & MASK


def _rounded(name: str, sources: str, compute: Callable[..., int]) -> list[OpSemantics]:
    modes = [("rn", "rn"), ("rz", "rz"), ("rm", "rm"), ("rp", "rp")]
    plain = [OpSemantics(f"{name}.{m}.f32", "f", sources, lambda *v, mode=mode: compute(*v, mode)) for m, mode in modes]
    return [*plain, OpSemantics(f"{name}.rn.ftz.f32", "f", sources, _flushed(lambda *v: compute(*v, "rn")))]


OPS: list[OpSemantics] = [
    OpSemantics("add.s32", "r", "rr", lambda a, b: a + b & MASK),
    OpSemantics("sub.s32", "r", "rr", lambda a, b: a - b & MASK),
    OpSemantics("mul.lo.s32", "r", "rr", lambda a, b: a * b & MASK),
    OpSemantics("mul.hi.u32", "r", "rr", lambda a, b: a * b >> 32),
    OpSemantics("mul.hi.s32", "r", "rr", lambda a, b: signed(a) * signed(b) >> 32 & MASK),
    OpSemantics("mul24.lo.u32", "r", "rr", lambda a, b: (a & 0xFFFFFF) * (b & 0xFFFFFF) & MASK),
    OpSemantics("mad.lo.s32", "r", "rrr", lambda a, b, c: a * b + c & MASK),
    OpSemantics("sad.u32", "r", "rrr", lambda a, b, c: abs(a - b) + c & MASK),
    OpSemantics("min.s32", "r", "rr", lambda a, b: min(a, b, key=signed)),
    OpSemantics("max.s32", "r", "rr", lambda a, b: max(a, b, key=signed)),
    OpSemantics("min.u32", "r", "rr", min),
    OpSemantics("max.u32", "r", "rr", max),
    OpSemantics("and.b32", "r", "rr", lambda a, b: a & b),
    OpSemantics("or.b32", "r", "rr", lambda a, b: a | b),
    OpSemantics("xor.b32", "r", "rr", lambda a, b: a ^ b),
    OpSemantics("not.b32", "r", "r", lambda a: ~a & MASK),
    OpSemantics("cnot.b32", "r", "r", lambda a: int(a == 0)),
    OpSemantics("shl.b32", "r", "rr", lambda a, b: a << b & MASK if b < 32 else 0),
    OpSemantics("shr.u32", "r", "rr", lambda a, b: a >> min(b, 32)),
    OpSemantics("shr.s32", "r", "rr", lambda a, b: signed(a) >> min(b, 32) & MASK),
    OpSemantics("shf.l.wrap.b32", "r", "rrr", lambda a, b, c: (b << 32 | a) << (c & 31) >> 32 & MASK),
    OpSemantics("shf.r.clamp.b32", "r", "rrr", lambda a, b, c: (b << 32 | a) >> min(c, 32) & MASK),
    OpSemantics("abs.s32", "r", "r", lambda a: abs(signed(a)) & MASK),
    OpSemantics("neg.s32", "r", "r", lambda a: -a & MASK),
    OpSemantics("popc.b32", "r", "r", lambda a: a.bit_count()),
    OpSemantics("clz.b32", "r", "r", lambda a: 32 - a.bit_length()),
    OpSemantics("brev.b32", "r", "r", lambda a: int(f"{a:032b}"[::-1], 2)),
    OpSemantics("bfind.u32", "r", "r", lambda a: a.bit_length() - 1 & MASK),
    OpSemantics("bfe.u32", "r", "rrr", lambda a, b, c: _field(a, b, c, False)),
    OpSemantics("bfe.s32", "r", "rrr", lambda a, b, c: _field(a, b, c, True)),
    OpSemantics("bfi.b32", "r", "rrrr", _insert),
    OpSemantics("prmt.b32", "r", "rrr", _permute),
    OpSemantics("lop3.b32", "r", "rrrr", _logic, ((3, 255),)),
    OpSemantics("dp4a.u32.u32", "r", "rrr", lambda a, b, c: _dot(a, b, c, False)),
    OpSemantics("dp4a.s32.s32", "r", "rrr", lambda a, b, c: _dot(a, b, c, True)),
    OpSemantics("cvt.s32.s8", "r", "r", lambda a: (a & 255) - (a << 1 & 256) & MASK),
    OpSemantics("cvt.u32.u16", "r", "r", lambda a: a & 0xFFFF),
    *_rounded("add", "ff", add),
    *_rounded("sub", "ff", lambda a, b, m: NAN if is_nan(b) else add(a, b ^ _SIGN, m)),
    *_rounded("mul", "ff", multiply),
    *_rounded("fma", "fff", fma),
    *_rounded("div", "ff", divide),
    OpSemantics("sqrt.rn.f32", "f", "f", square_root),
    OpSemantics("min.f32", "f", "ff", minimum),
    OpSemantics("max.f32", "f", "ff", lambda a, b: minimum(a, b, greatest=True)),
    OpSemantics("neg.f32", "f", "f", lambda a: NAN if is_nan(a) else a ^ _SIGN),
    OpSemantics("abs.f32", "f", "f", lambda a: NAN if is_nan(a) else a & ~_SIGN & MASK),
    OpSemantics("cvt.rn.f32.s32", "f", "r", lambda a: encode(Fraction(signed(a)), "rn", 0)),
    OpSemantics("cvt.rz.f32.u32", "f", "r", lambda a: encode(Fraction(a), "rz", 0)),
    OpSemantics("cvt.rzi.s32.f32", "r", "f", to_integer),
]

COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "lt.s32": lambda a, b: signed(a) < signed(b),
    "ge.u32": lambda a, b: a >= b,
    "eq.s32": lambda a, b: a == b,
    "ne.u32": lambda a, b: a != b,
    "gt.f32": lambda a, b: decode(a) > decode(b),
    "leu.f32": lambda a, b: not decode(a) > decode(b),
    "equ.f32": lambda a, b: is_nan(a) or is_nan(b) or decode(a) == decode(b),
    "ne.f32": lambda a, b: decode(a) < decode(b) or decode(a) > decode(b),
}
