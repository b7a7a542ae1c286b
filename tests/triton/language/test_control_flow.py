"""Control flow, functions, inline assembly, random numbers, printing and assertions."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl
from language_support import run, values

from gpuemu.triton import emulated


@triton.jit
def helper(a, b):
    if a > b:
        return a - b
    return b - a


@triton.jit(noinline=True)
def distant(a, b):
    return a * 3 + b


@triton.jit
def digits(value):
    count = 0
    while value > 0:
        value = value // 10
        count += 1
    return count


@triton.jit
def branches(x, out, n, CASE: tl.constexpr, BLOCK: tl.constexpr):
    program = tl.program_id(0)
    value = tl.load(x + program)
    offsets = tl.arange(0, BLOCK)
    if CASE == "if":
        if value > 10:
            result = value
        elif value > 0:
            result = value * 100
        else:
            result = -value
    elif CASE == "for":
        result = 0
        for index in range(program, n, 3):
            result += index * value
    elif CASE == "for down":
        result = 0
        for index in range(n, 0, -2):
            result = result * 3 + index
    elif CASE == "nested":
        result = 0
        for outer in range(program):
            for inner in range(outer):
                if inner % 2 == 0:
                    result += inner * value
    elif CASE == "while":
        result = digits(tl.abs(value))
    elif CASE == "static range":
        result = 0
        for index in tl.static_range(1, 6, 2):
            result = result * 10 + index
    elif CASE == "carried tensor":
        a = tl.load(x + offsets)
        for _ in range(program):
            a = a * 2 + 1
        result = tl.sum(a)
    elif CASE == "pipelined":
        result = 0
        for index in tl.range(0, n, num_stages=3):
            result += tl.sum(tl.load(x + offsets)) + index
    elif CASE == "helper":
        result = helper(value, 7)
    elif CASE == "noinline":
        result = distant(distant(value, 1), program)
    elif CASE == "early return":
        if program % 2 == 1:
            return
        result = value + 1
    elif CASE == "conditional store":
        result = value
        if program == 2:
            tl.store(out + n + offsets, offsets)
    elif CASE == "select expression":
        result = value if program > 3 else -1
    tl.store(out + program, result)


def quotient_steps(value):
    return len(str(abs(int(value)))) if value else 0


@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize(
    "case",
    ["if", "for", "for down", "nested", "while", "static range", "carried tensor", "pipelined", "helper", "noinline",
     "early return", "conditional store", "select expression"],
)  # fmt: skip
def test_branches_and_loops(case, num_warps, arch):
    x = values("int32", 32, 1, -40, 40)
    out = np.full(48, -7, np.int32)
    run(branches, 8, x, out, 10, CASE=case, BLOCK=32, num_warps=num_warps, arch=arch)
    value = lambda p: int(x[p])  # noqa: E731
    down = 0
    for index in range(10, 0, -2):
        down = down * 3 + index
    formula = {
        "if": lambda p: value(p) if value(p) > 10 else value(p) * 100 if value(p) > 0 else -value(p),
        "for": lambda p: sum(range(p, 10, 3)) * value(p),
        "for down": lambda p: down,
        "nested": lambda p: sum(i for o in range(p) for i in range(o) if i % 2 == 0) * value(p),
        "while": lambda p: quotient_steps(x[p]),
        "static range": lambda p: 135,
        "carried tensor": lambda p: int((x.astype(object) * 2**p + 2**p - 1).sum()),
        "pipelined": lambda p: int(x.sum()) * 10 + 45,
        "helper": lambda p: abs(value(p) - 7),
        "noinline": lambda p: (value(p) * 3 + 1) * 3 + p,
        "early return": lambda p: -7 if p % 2 else value(p) + 1,
        "conditional store": value,
        "select expression": lambda p: value(p) if p > 3 else -1,
    }[case]
    expected = [formula(p) for p in range(8)] + [-7] * 40
    if case == "conditional store":
        expected[10:42] = range(32)
    assert out.tolist() == expected


@triton.jit
def assembly(x, y, out, CASE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a, b = tl.load(x + offsets), tl.load(y + offsets)
    if CASE == "one":
        result = tl.inline_asm_elementwise("lop3.b32 $0, $1, $2, $1, 0x3c;", "=r,r,r", [a, b], tl.int32, True, 1)
    elif CASE == "several statements":
        result = tl.inline_asm_elementwise(
            """
            {
                .reg .b32 low;
                and.b32 low, $1, 255;
                add.s32 $0, low, $2;
            }
            """,
            "=r,r,r", [a, b], tl.int32, True, 1,
        )  # fmt: skip
    elif CASE == "packed":
        narrow = (a & 127).to(tl.int8)
        packed = tl.inline_asm_elementwise("add.u32 $0, $1, 0x01010101;", "=r,r", [narrow], tl.int8, True, 4)
        result = packed.to(tl.int32)
    tl.store(out + offsets, result)


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("case", ["one", "several statements", "packed"])
def test_inline_assembly(case, num_warps):
    x, y = values("int32", 256, 2), values("int32", 256, 3, 0, 1000)
    out = np.zeros(256, np.int32)
    run(assembly, 1, x, y, out, CASE=case, BLOCK=256, num_warps=num_warps)
    expected = {
        "one": x ^ y,
        "several statements": (x & 255) + y,
        "packed": (((x & 127) + 1).astype(np.uint8)).view(np.int8),
    }
    assert out.tolist() == expected[case].tolist()


def philox(seed, offset, rounds=10):
    """Return the four words of Philox-4x32 for 64-bit seeds and 32-bit counters (Salmon et al., SC'11)."""
    low = np.uint64(0xFFFFFFFF)
    counter = [np.asarray(offset, np.uint64), *(np.zeros(len(offset), np.uint64) for _ in range(3))]
    key = [np.uint64(seed) & low, np.uint64(seed) >> np.uint64(32)]
    for _ in range(rounds):
        first, second = np.uint64(0xD2511F53) * counter[0], np.uint64(0xCD9E8D57) * counter[2]
        shift = np.uint64(32)
        counter = [
            (second >> shift) ^ counter[1] ^ key[0],
            second & low,
            (first >> shift) ^ counter[3] ^ key[1],
            first & low,
        ]
        key = [(key[0] + np.uint64(0x9E3779B9)) & low, (key[1] + np.uint64(0xBB67AE85)) & low]
    return [word.astype(np.uint32) for word in counter]


def uniform(word):
    """Return what Triton makes of 32 random bits: a float in [0, 1)."""
    signed = word.view(np.int32).astype(np.int64)
    return np.where(signed < 0, -signed - 1, signed).astype(np.float32) * np.float32(4.6566127342e-10)


@triton.jit
def random(seed, out, CASE: tl.constexpr, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    if CASE == "randint":
        result = tl.randint(seed, offsets)
    elif CASE == "randint4x":
        first, second, third, fourth = tl.randint4x(seed, offsets)
        result = first ^ second ^ third ^ fourth
    elif CASE == "rand":
        result = tl.rand(seed, offsets)
    else:
        result = tl.randn(seed, offsets)
    tl.store(out + offsets, result)


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("seed", [0, 42, 2**31 - 1, 2**40 + 7])
@pytest.mark.parametrize("case", ["randint", "randint4x", "rand", "randn"])
def test_random_numbers_are_those_of_philox(case, seed, num_warps):
    out = np.zeros(256, np.float32 if case in ("rand", "randn") else np.uint32)
    run(random, 2, seed, out, CASE=case, BLOCK=128, num_warps=num_warps)
    words = philox(seed, np.arange(256))
    if case == "randint":
        assert np.array_equal(out, words[0])
    elif case == "randint4x":
        assert np.array_equal(out, words[0] ^ words[1] ^ words[2] ^ words[3])
    elif case == "rand":
        assert np.array_equal(out, uniform(words[0]))
    else:
        radius = np.sqrt(-2 * np.log(np.maximum(uniform(words[0]), np.float32(1e-7)).astype(np.float64)))
        assert np.allclose(out, radius * np.cos(2 * np.pi * uniform(words[1]).astype(np.float64)), atol=2e-5)


@triton.jit
def dropout(x, out, n, probability, seed, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = offsets < n
    kept = tl.rand(seed, offsets) > probability
    a = tl.load(x + offsets, mask=inside)
    tl.store(out + offsets, tl.where(kept, a / (1 - probability), 0.0), mask=inside)


def test_dropout():
    x, out = values("float32", 1000, 4), np.zeros(1000, np.float32)
    run(dropout, 4, x, out, 1000, 0.25, 123, BLOCK=256)
    kept = uniform(philox(123, np.arange(1000))[0]) > np.float32(0.25)
    assert np.array_equal(out != 0, kept) and np.allclose(out[kept], x[kept] / 0.75)


@triton.jit
def check(x, n, BLOCK: tl.constexpr):
    offsets = tl.arange(0, BLOCK)
    a = tl.load(x + offsets, mask=offsets < n, other=1.0)
    tl.device_assert(a > 0, "not positive", mask=offsets < n)
    tl.store(x + offsets, a, mask=offsets < n)


@pytest.mark.parametrize("wrong", [None, 0, 99])
def test_assertions(wrong, monkeypatch):
    monkeypatch.setenv("TRITON_DEBUG", "1")
    x = np.ones(100, np.float32)
    if wrong is not None:
        x[wrong] = -1
    with emulated(on_finding="collect") as session:
        check[(1,)](x, 100, BLOCK=128, debug=True)
    assert [finding.rule for finding in session.findings] == ([] if wrong is None else ["sync/trap"])


@triton.jit
def report(x, BLOCK: tl.constexpr):
    tl.device_print("value", tl.load(x + tl.arange(0, BLOCK)))


@pytest.mark.parametrize("dtype", ["int32", "uint8", "int64", "float32", "float16"])
def test_prints(dtype, capsys):
    x = np.arange(32).astype(dtype)
    run(report, 1, x, BLOCK=32, num_warps=1)
    lines = [line for line in capsys.readouterr().out.splitlines() if "value" in line]
    assert sorted(float(line.rsplit(maxsplit=1)[-1]) for line in lines) == list(range(32))
