"""Integer, logic, bit, compare, select and move instructions against Python's integers."""

from __future__ import annotations

import itertools
import random

import numpy as np
import pytest
from support.instruction_launch import RELATIONS, parse, run

from gpuemu_lsp.engine.emulator import ops

_AMOUNTS = (0, 1, 5, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 255, 256, 257, 0x7FFFFFFF, 0xFFFFFFFF)


def _signed(value: int, bits: int) -> int:
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> (bits - 1) else value


def _values(name: str, count: int = 10) -> list[int]:
    if name == "pred":
        return [0, 1]
    bits = {"f32": 32, "f64": 64, "f16": 16}.get(name) or int("".join(filter(str.isdigit, name.replace("x2", ""))))
    bits = 32 if name.endswith("x2") else bits
    top = 1 << (bits - 1)
    rng = random.Random(name)
    edges = [0, 1, 2, 3, 7, top - 1, top, top + 1, 2 * top - 1, 2 * top - 2, 0x0123456789ABCDEF & (2 * top - 1)]
    return edges + [rng.getrandbits(bits) >> rng.randrange(bits) for _ in range(count)]


def _check(text: str, function, *domains) -> None:
    """Compare ``text`` with ``function`` (Python integers in the operand's type to integers) over a product."""
    signature = ops.operand_types(parse(text))
    names = signature.sources[: len(domains)] if domains else signature.sources
    values = [domain or _values(name) for name, domain in zip(names, domains or [None] * len(names), strict=True)]
    cases = list(itertools.product(*values))
    if len(cases) > 4000:
        cases = random.Random(text).sample(cases, 4000)
    columns = [np.array(column, np.uint64) for column in zip(*cases, strict=True)]
    results = run(text, *columns)
    for index, case in enumerate(cases):
        given = [
            _signed(value, int(name[1:])) if name[0] == "s" and name[1:].isdigit() else value
            for name, value in zip(names, case, strict=True)
        ]
        expected = function(*given)
        expected = expected if isinstance(expected, tuple) else (expected,)
        for name, result, wanted in zip(signature.destinations, results, expected, strict=True):
            width = result.dtype.itemsize * 8
            mask = 1 if name == "pred" else (1 << width) - 1
            assert int(result[index]) == int(wanted) & mask, (text, list(map(hex, case)))


def _clamp(value: int, name: str) -> int:
    bits = int(name[1:])
    low, high = (-(1 << (bits - 1)), (1 << (bits - 1)) - 1) if name[0] == "s" else (0, (1 << bits) - 1)
    return min(max(value, low), high)


def _quotient(a: int, b: int) -> int:
    return -1 if b == 0 else abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1)


def _remainder(a: int, b: int) -> int:
    return a - _quotient(a, b) * b if b else -1


_TYPES = ("s16", "u16", "s32", "u32", "s64", "u64")


@pytest.mark.parametrize("name", _TYPES)
def test_arithmetic(name: str) -> None:
    width = int(name[1:])
    _check(f"add.{name} d, a, b", lambda a, b: a + b)
    _check(f"sub.{name} d, a, b", lambda a, b: a - b)
    _check(f"mul.lo.{name} d, a, b", lambda a, b: a * b)
    _check(f"mul.hi.{name} d, a, b", lambda a, b: a * b >> width)
    _check(f"mad.lo.{name} d, a, b, c", lambda a, b, c: a * b + c)
    _check(f"mad.hi.{name} d, a, b, c", lambda a, b, c: (a * b >> width) + c)
    _check(f"sad.{name} d, a, b, c", lambda a, b, c: abs(a - b) + c)
    _check(f"min.{name} d, a, b", min)
    _check(f"max.{name} d, a, b", max)
    if width < 64:
        _check(f"mul.wide.{name} d, a, b", lambda a, b: a * b)
        _check(f"mad.wide.{name} d, a, b, c", lambda a, b, c: a * b + c)
    if name[0] == "s":
        _check(f"neg.{name} d, a", lambda a: -a)
        _check(f"abs.{name} d, a", abs)


@pytest.mark.parametrize("name", _TYPES)
def test_division_never_traps(name: str) -> None:
    _check(f"div.{name} d, a, b", _quotient)
    _check(f"rem.{name} d, a, b", _remainder)
    for divisor in (1, 3, 7, 64, 1000):
        _check(f"div.{name} d, a, {divisor}", lambda a, divisor=divisor: _quotient(a, divisor), None)
        _check(f"rem.{name} d, a, {divisor}", lambda a, divisor=divisor: _remainder(a, divisor), None)
    _check(f"div.{name} d, a, 0", lambda a: -1, None)
    if name[0] == "s":
        _check(f"div.{name} d, a, -1", lambda a: -a, None)
        _check(f"rem.{name} d, a, -1", lambda a: 0, None)


def test_saturating() -> None:
    _check("add.sat.s32 d, a, b", lambda a, b: _clamp(a + b, "s32"))
    _check("sub.sat.s32 d, a, b", lambda a, b: _clamp(a - b, "s32"))
    _check("mad.hi.sat.s32 d, a, b, c", lambda a, b, c: _clamp((a * b >> 32) + c, "s32"))
    _check("min.relu.s32 d, a, b", lambda a, b: max(min(a, b), 0))
    _check("max.relu.s32 d, a, b", lambda a, b: max(a, b, 0))


@pytest.mark.parametrize("name", ["u32", "s32"])
def test_24_bit_products(name: str) -> None:
    def low(value: int) -> int:
        return _signed(value, 24) if name == "s32" else value & 0xFFFFFF

    _check(f"mul24.lo.{name} d, a, b", lambda a, b: low(a) * low(b))
    _check(f"mul24.hi.{name} d, a, b", lambda a, b: low(a) * low(b) >> 16)
    _check(f"mad24.lo.{name} d, a, b, c", lambda a, b, c: low(a) * low(b) + c)
    _check(f"mad24.hi.{name} d, a, b, c", lambda a, b, c: (low(a) * low(b) >> 16) + c)


@pytest.mark.parametrize("name", ["u32", "u64"])
def test_carry_flag(name: str) -> None:
    width = int(name[1:])
    _check(f"add.cc.{name} d, a, b", lambda a, b: (a + b, (a + b) >> width))
    _check(f"addc.{name} d, a, b", lambda a, b, c: a + b + c)
    _check(f"addc.cc.{name} d, a, b", lambda a, b, c: (a + b + c, (a + b + c) >> width))
    mask = (1 << width) - 1
    # The carry-out of a + ~b + 1, as ptxas' IADD3 has it: the inverse of a borrow.
    _check(f"sub.cc.{name} d, a, b", lambda a, b: (a - b, a >= b))
    _check(f"subc.{name} d, a, b", lambda a, b, c: a + (b ^ mask) + c)
    _check(f"subc.cc.{name} d, a, b", lambda a, b, c: (a + (b ^ mask) + c, (a + (b ^ mask) + c) >> width))
    _check(
        f"madc.hi.cc.{name} d, a, b, c",
        lambda a, b, c, carry: ((a * b >> width) + c + carry, ((a * b >> width) + c + carry) >> width),
    )
    _check(f"mad.lo.cc.{name} d, a, b, c", lambda a, b, c: ((a * b) + c, ((a * b & mask) + c) >> width))


@pytest.mark.parametrize("name", ["s16x2", "u16x2"])
def test_packed_16_bit_integers(name: str) -> None:
    def halves(function):
        def both(*values: int) -> int:
            parts = [[(v >> s) & 0xFFFF for v in values] for s in (0, 16)]
            if name[0] == "s":
                parts = [[_signed(v, 16) for v in part] for part in parts]
            low, high = (function(*part) & 0xFFFF for part in parts)
            return low | high << 16

        return both

    _check(f"add.{name} d, a, b", halves(lambda a, b: a + b))
    _check(f"min.{name} d, a, b", halves(min))
    _check(f"max.{name} d, a, b", halves(max))


@pytest.mark.parametrize("width", [16, 32, 64])
def test_logic_and_shifts(width: int) -> None:
    mask = (1 << width) - 1
    _check(f"and.b{width} d, a, b", lambda a, b: a & b)
    _check(f"or.b{width} d, a, b", lambda a, b: a | b)
    _check(f"xor.b{width} d, a, b", lambda a, b: a ^ b)
    _check(f"not.b{width} d, a", lambda a: ~a)
    _check(f"cnot.b{width} d, a", lambda a: a == 0)
    _check(f"shl.b{width} d, a, b", lambda a, n: a << min(n, width) & mask, None, _AMOUNTS)
    for kind in "bus":
        _check(f"shr.{kind}{width} d, a, b", lambda a, n: a >> min(n, width), None, _AMOUNTS)
    for amount in (0, 3, width - 1, width, width + 1):
        _check(f"shl.b{width} d, a, {amount}", lambda a, n=amount: a << n, None)
        _check(f"shr.u{width} d, a, {amount}", lambda a, n=amount: a >> n, None)
        _check(f"shr.s{width} d, a, {amount}", lambda a, n=amount: a >> n, None)


def test_logic_on_predicates() -> None:
    _check("and.pred d, a, b", lambda a, b: a & b)
    _check("or.pred d, a, b", lambda a, b: a | b)
    _check("xor.pred d, a, b", lambda a, b: a ^ b)
    _check("not.pred d, a", lambda a: 1 - a)
    _check("mov.pred d, a", lambda a: a)


def test_funnel_shifts() -> None:
    for mode, clamp in (("wrap", lambda n: n & 31), ("clamp", lambda n: min(n, 32))):
        _check(
            f"shf.l.{mode}.b32 d, a, b, c", lambda a, b, n, c=clamp: (b << 32 | a) << c(n) >> 32, None, None, _AMOUNTS
        )
        _check(f"shf.r.{mode}.b32 d, a, b, c", lambda a, b, n, c=clamp: (b << 32 | a) >> c(n), None, None, _AMOUNTS)


def _table(table: int, a: int, b: int, c: int) -> int:
    result = 0
    for index in range(8):
        if table >> index & 1:
            terms = [x if index >> place & 1 else ~x for x, place in ((a, 2), (b, 1), (c, 0))]
            result |= terms[0] & terms[1] & terms[2]
    return result & 0xFFFFFFFF


def test_every_truth_table() -> None:
    a, b, c = np.meshgrid(*[np.array([0xF0F0F0F0, 0x12345678, 0xCAFEBABE], np.uint64)] * 3)
    for table in range(0, 256, 5):
        (result,) = run(f"lop3.b32 d, a, b, c, {table}", a.ravel(), b.ravel(), c.ravel())
        expected = [_table(table, *map(int, case)) for case in zip(a.ravel(), b.ravel(), c.ravel(), strict=True)]
        assert result.tolist() == expected, table


def test_truth_table_with_predicate() -> None:
    a, b, c, p = (column.ravel().astype(np.uint64) for column in np.meshgrid([0, 1], [0, 1], [0, 3], [0, 1]))
    result, nonzero = run("lop3.or.b32 d|p, a, b, c, 0x80, q", a, b, c, p)
    assert result.tolist() == (a & b & c).tolist()
    assert nonzero.tolist() == (((a & b & c) != 0) | (p != 0)).tolist()


@pytest.mark.parametrize("width", [32, 64])
def test_bit_counts(width: int) -> None:
    _check(f"popc.b{width} d, a", lambda a: a.bit_count())
    _check(f"clz.b{width} d, a", lambda a: width - a.bit_length())
    _check(f"brev.b{width} d, a", lambda a: int(f"{a:0{width}b}"[::-1], 2))

    def highest(a: int) -> int:
        return (a if a >= 0 else ~a).bit_length() - 1

    for kind in "us":
        _check(f"bfind.{kind}{width} d, a", highest)
        _check(f"bfind.shiftamt.{kind}{width} d, a", lambda a: -1 if highest(a) < 0 else width - 1 - highest(a))


@pytest.mark.parametrize("width", [32, 64])
def test_bit_fields(width: int) -> None:
    top = width - 1

    def extract(a: int, start: int, length: int, signed: bool) -> int:
        start, length = start & 255, length & 255
        bits = a & ((1 << width) - 1)
        fill = bits >> min(start + length - 1, top) & 1 if signed and length else 0
        result = 0
        for index in range(width):
            inside = index < length and start + index <= top
            result |= (bits >> (start + index) & 1 if inside else fill) << index
        return result

    def insert(a: int, b: int, start: int, length: int) -> int:
        start, length = start & 255, length & 255
        for index in range(length):
            if start + index <= top:
                b = b & ~(1 << start + index) | (a >> index & 1) << start + index
        return b

    _check(f"bfe.u{width} d, a, b, c", lambda a, s, n: extract(a, s, n, False), None, _AMOUNTS, _AMOUNTS)
    _check(f"bfe.s{width} d, a, b, c", lambda a, s, n: extract(a, s, n, True), None, _AMOUNTS, _AMOUNTS)
    _check(f"bfi.b{width} d, a, b, c, e", insert, None, None, _AMOUNTS, _AMOUNTS)


def test_bmsk_and_szext() -> None:
    def mask(start: int, length: int) -> int:
        return ((1 << min(length, 32)) - 1) << min(start, 32)

    _check("bmsk.clamp.b32 d, a, b", mask, _AMOUNTS, _AMOUNTS)
    _check("bmsk.wrap.b32 d, a, b", lambda s, n: mask(s & 31, n & 31), _AMOUNTS, _AMOUNTS)

    def extend(a: int, length: int, signed: bool) -> int:
        length = min(length, 32)
        field = a & ((1 << length) - 1)
        return _signed(field, length) if signed and length else field

    for name in ("u32", "s32"):
        _check(f"szext.clamp.{name} d, a, b", lambda a, n, s=name == "s32": extend(a, n, s), None, _AMOUNTS)
        _check(f"szext.wrap.{name} d, a, b", lambda a, n, s=name == "s32": extend(a, n & 31, s), None, _AMOUNTS)


def test_nth_set_bit() -> None:
    def reference(mask: int, base: int, offset: int) -> int:
        if offset == 0:
            return base if mask >> base & 1 else -1
        count, step = abs(offset) - 1, 1 if offset > 0 else -1
        while 0 <= base < 32:
            if mask >> base & 1:
                if count == 0:
                    return base
                count -= 1
            base += step
        return -1

    _check("fns.b32 d, a, b, c", reference, None, (0, 1, 7, 16, 31), [n & 0xFFFFFFFF for n in range(-6, 7)] + [1 << 31])


def _permuted(a: int, b: int, selector: int) -> int:
    data = (b << 32 | a).to_bytes(8, "little")
    result = 0
    for index in range(4):
        nibble = selector >> 4 * index & 15
        byte = data[nibble & 7]
        result |= ((0xFF if byte & 0x80 else 0) if nibble & 8 else byte) << 8 * index
    return result


def test_permute_bytes() -> None:
    selectors = [0x3210, 0x7654, 0xFEDC, 0x5410, 0x7632, 0x0123, 0xBA98, 0xFFFF3210]
    _check("prmt.b32 d, a, b, c", _permuted, None, None, selectors)
    for selector in selectors:
        _check(f"prmt.b32 d, a, b, {selector:#x}", lambda a, b, s=selector: _permuted(a, b, s), None, None)


@pytest.mark.parametrize(
    ("mode", "function"),
    [  # source of result byte i, for selector n (PTX ISA, table of the modes of prmt)
        ("f4e", lambda n, i: n + i),
        ("b4e", lambda n, i: (n - i) % 8),
        ("rc8", lambda n, i: n),
        ("ecl", lambda n, i: max(n, i)),
        ("ecr", lambda n, i: min(n, i)),
        ("rc16", lambda n, i: 2 * (n & 1) + (i & 1)),
    ],
)
def test_permute_modes(mode: str, function) -> None:
    def reference(a: int, b: int, selector: int) -> int:
        data = (b << 32 | a).to_bytes(8, "little")
        return int.from_bytes(bytes(data[function(selector & 3, place)] for place in range(4)), "little")

    _check(f"prmt.b32.{mode} d, a, b, c", reference, None, None, (0, 1, 2, 3, 6))
    _check(f"prmt.b32.{mode} d, a, b, 2", lambda a, b: reference(a, b, 2), None, None)


def test_dot_products() -> None:
    def field(value: int, index: int, width: int, signed: bool) -> int:
        part = value >> index * width & ((1 << width) - 1)
        return _signed(part, width) if signed else part

    for left, right in itertools.product(("s32", "u32"), repeat=2):
        sl, sr = left == "s32", right == "s32"

        def four(a: int, b: int, c: int, sl=sl, sr=sr) -> int:
            return c + sum(field(a, i, 8, sl) * field(b, i, 8, sr) for i in range(4))

        _check(f"dp4a.{left}.{right} d, a, b, c", four)
        for part, start in (("lo", 0), ("hi", 2)):

            def two(a: int, b: int, c: int, sl=sl, sr=sr, start=start) -> int:
                return c + sum(field(a, i, 16, sl) * field(b, start + i, 8, sr) for i in range(2))

            _check(f"dp2a.{part}.{left}.{right} d, a, b, c", two)


@pytest.mark.parametrize("kind", ["u32", "s32"])
@pytest.mark.parametrize("count", [2, 4])
def test_video(count: int, kind: str) -> None:
    width = 32 // count
    functions = {"vadd": lambda a, b: a + b, "vsub": lambda a, b: a - b, "vabsdiff": lambda a, b: abs(a - b)}

    def fields(value: int) -> list[int]:
        parts = [value >> i * width & ((1 << width) - 1) for i in range(count)]
        return [_signed(part, width) for part in parts] if kind == "s32" else parts

    for name, function in {**functions, "vmin": min, "vmax": max}.items():

        def packed(a: int, b: int, c: int, function=function, limit=lambda value: value) -> int:
            results = [limit(function(*pair)) for pair in zip(fields(a), fields(b), strict=True)]
            return sum((result & ((1 << width) - 1)) << i * width for i, result in enumerate(results))

        def added(a: int, b: int, c: int, function=function) -> int:
            return c + sum(function(*pair) for pair in zip(fields(a), fields(b), strict=True))

        def limited(a: int, b: int, c: int, packed=packed) -> int:
            return packed(a, b, c, limit=lambda value: _clamp(value, f"{kind[0]}{width}"))

        text = f"{name}{count}.{kind}.{kind}.{kind}"
        _check(f"{text} d, a, b, c", packed)
        _check(f"{text}.add d, a, b, c", added)
        _check(f"{text}.sat d, a, b, c", limited)


@pytest.mark.parametrize("name", _TYPES)
@pytest.mark.parametrize("relation", RELATIONS)
def test_setp(relation: str, name: str) -> None:
    function = RELATIONS[relation]
    _check(f"setp.{relation}.{name} p, a, b", function)
    if name.endswith("32"):
        _check(
            f"setp.{relation}.or.{name} p|q, a, b, c", lambda a, b, c: (function(a, b) or c, not function(a, b) or c)
        )
        _check(f"setp.{relation}.xor.{name} p, a, b, c", lambda a, b, c: function(a, b) ^ c)
        _check(f"set.{relation}.u32.{name} d, a, b", lambda a, b: -function(a, b))
        _check(f"set.{relation}.and.f32.{name} d, a, b, c", lambda a, b, c: 0x3F800000 * (function(a, b) and c))


def test_unsigned_relations() -> None:
    for relation, same in (("lo", "lt"), ("ls", "le"), ("hi", "gt"), ("hs", "ge")):
        _check(f"setp.{relation}.u32 p, a, b", RELATIONS[same])
        assert not ops.supports(parse(f"setp.{relation}.s32 p, a, b"))


@pytest.mark.parametrize("name", ["b16", "u16", "b32", "s32", "u32", "f32", "b64", "f64", "s64"])
def test_selp(name: str) -> None:
    _check(f"selp.{name} d, a, b, c", lambda a, b, c: a if c else b)
    _check(f"slct.{name}.s32 d, a, b, c", lambda a, b, c: a if c >= 0 else b)


def test_moves() -> None:
    _check("mov.u32 d, a", lambda a: a)
    _check("mov.b32 d, {a, b}", lambda a, b: a | b << 16)
    _check("mov.b32 {d, e}, a", lambda a: (a, a >> 16))
    _check("mov.b64 d, {a, b}", lambda a, b: a | b << 32)
    _check("mov.b64 {d, e}, a", lambda a: (a, a >> 32))
    _check("mov.b64 d, {a, b, c, e}", lambda a, b, c, d: a | b << 16 | c << 32 | d << 48, *[(0, 1, 0xFFFF, 0x8000)] * 4)
    _check("mov.b32 {d, e, f, g}, a", lambda a: (a, a >> 8, a >> 16, a >> 24))


@pytest.mark.parametrize("source", ["s8", "u8", *_TYPES])
def test_conversions_between_integers(source: str) -> None:
    for to in ("s8", "u8", *_TYPES):
        _check(f"cvt.{to}.{source} d, a", lambda a: a)
        _check(f"cvt.sat.{to}.{source} d, a", lambda a, to=to: _clamp(a, to))


def test_pack_integers() -> None:
    for name, width in (("s16", 16), ("u16", 16)):
        mask = (1 << width) - 1

        def pair(a: int, b: int, name=name, mask=mask) -> int:
            return (_clamp(a, name) & mask) << 16 | _clamp(b, name) & mask

        _check(f"cvt.pack.sat.{name}.s32 d, a, b", pair)
    for name in ("s8", "u8"):

        def bytes_(a: int, b: int, c: int, name=name) -> int:
            return (c & 0xFFFF) << 16 | (_clamp(a, name) & 255) << 8 | _clamp(b, name) & 255

        _check(f"cvt.pack.sat.{name}.s32.b32 d, a, b, c", bytes_)


@pytest.mark.parametrize(
    "text",
    [
        "add.s32 d, a",
        "add.s32 d, a, b, c",
        "add.newmodifier.s32 d, a, b",
        "add.b32 d, a, b",
        "mul.s32 d, a, b",
        "mul.wide.s64 d, a, b",
        "min.relu.u32 d, a, b",
        "setp.lt.b32 p, a, b",
        "setp.lt.f16x2 p, a, b",
        "cvt.u32.f32 d, a",
        "cvt.f32.s32 d, a",
        "cvt.f32.f64 d, a",
        "ld.global.u32 d, a",
        "tex.2d.v4.f32.f32 d, a, b",
    ],
)
def test_unknown_modifiers_are_unsupported(text: str) -> None:
    assert not ops.supports(parse(text))
    with pytest.raises(ValueError, match="no elementwise semantics"):
        ops.operand_types(parse(text))


@pytest.mark.parametrize("left", ["u32", "s32"])
@pytest.mark.parametrize("to", ["u32", "s32"])
def test_video_instructions_of_whole_registers(to: str, left: str) -> None:
    def signed(value: int, name: str) -> int:
        return _signed(value, 32) if name == "s32" else value & 0xFFFFFFFF

    def shift(name: str, a: int, amount: int) -> int:
        return a << amount if name == "vshl" else a >> amount

    operations = {
        "vadd": lambda a, b: a + b, "vsub": lambda a, b: a - b, "vabsdiff": lambda a, b: abs(a - b), "vmin": min, "vmax": max
    }  # fmt: skip
    numbers = [0, 1, 7, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF]
    rows = np.array([(a, b, 5) for a in numbers for b in numbers], np.uint32).T
    for name, function in operations.items():
        exact = [function(signed(a, left), b) for a, b, _ in rows.T.tolist()]
        _video_results(f"{name}.{to}.{left}.u32", exact, to, rows)
    for name in ("vshl", "vshr"):
        for mode, limited in (("clamp", lambda n: min(n, 32)), ("wrap", lambda n: n & 31)):
            exact = [shift(name, signed(a, left), limited(b)) for a, b, _ in rows.T.tolist()]
            _video_results(f"{name}.{to}.{left}.u32{{sat}}.{mode}", exact, to, rows)


def _video_results(name: str, exact: list[int], to: str, rows: np.ndarray) -> None:
    plain, saturated = (name.format(sat=s) if "{" in name else name + s for s in ("", ".sat"))
    limited = [_clamp(value, to) for value in exact]
    for opcode, values in ((plain, exact), (saturated, limited)):
        assert run(f"{opcode} d, a, b", *rows[:2])[0].tolist() == [value & 0xFFFFFFFF for value in values], opcode
        added = [value + 5 & 0xFFFFFFFF for value in values]
        assert run(f"{opcode}.add d, a, b, c", *rows)[0].tolist() == added, opcode
