"""Time of translation: from PTX to the end of the first launch, over the number of instructions.

    python -m benchmarks.translation [--json] [--sizes N ...] [--svg FILE] [--repeat N]

Kernels are generated with about N instructions in three kinds (straight-line code, loops, divergent branches), and
taken from ``benchmarks/peers/kernels.cu``. Nothing is cached; the launch has one block of 64 threads and memory
checking. Times are processor times, since translation is a single thread that never waits. ``growth`` is the exponent
of a power law fitted to each kind: 1 is linear.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import random
import statistics
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.emulator import MEMORY, compile_ptx, only
from benchmarks.fresh import nothing_cached
from benchmarks.peers.cases import cases
from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Buffer, Request, Scalar
from gpuemu_lsp.engine.ptx.model import Instruction
from gpuemu_lsp.engine.ptx.parser import parse

SIZES = (100, 200, 500, 1000, 2000, 5000, 10000, 20000)
KINDS = ("straight", "loops", "branches")
_HEAD = """//
.version 8.0
.target sm_80
.address_size 64
.visible .entry k(.param .u64 x, .param .u64 y)
{
  .reg .pred %p<3>;
  .reg .b32 %r<20>;
  .reg .f32 %f<16>;
  .reg .b64 %rd<5>;
  ld.param.u64 %rd1, [x];
  ld.param.u64 %rd2, [y];
  mov.u32 %r0, %tid.x;
  mul.wide.u32 %rd3, %r0, 4;
  add.s64 %rd1, %rd1, %rd3;
  add.s64 %rd2, %rd2, %rd3;
"""


def generated(kind: str, size: int) -> str:
    """Return a kernel of about ``size`` instructions, a mix of arithmetic and memory accesses as in compiled code."""
    rng = random.Random(size)
    lines = [f"  ld.global.f32 %f{i}, [%rd1+{256 * (i % 4)}];" for i in range(16)]
    lines += [f"  add.u32 %r{i}, %r0, {i};" for i in range(1, 16)]
    number = 0
    while len(lines) < size - 24:
        number += 1
        body = [_line(rng) for _ in range(40)]
        if kind == "loops":
            head = [f"  mov.u32 %r16, {rng.randint(1, 3)};", f"$L{number}:"]
            foot = ["  sub.u32 %r16, %r16, 1;", "  setp.ne.u32 %p0, %r16, 0;", f"  @%p0 bra $L{number};"]
        elif kind == "branches":
            head = [f"  setp.lt.s32 %p0, %r{rng.randrange(16)}, {rng.randrange(64)};", f"  @%p0 bra $L{number};"]
            foot = [f"$L{number}:"]
        else:
            head = foot = []
        lines += head + body + foot
    lines += [f"  st.global.f32 [%rd2+{256 * (i % 4)}], %f{i};" for i in range(16)]
    return _HEAD + "\n".join(lines) + "\n  ret;\n}\n"


def _line(rng: random.Random) -> str:
    """Return one instruction, with frequencies as in public kernels: 60 % floating point, 25 % integer, 15 % memory."""
    a, b, c = (rng.randrange(16) for _ in range(3))
    choice = rng.random()
    if choice < 0.5:
        return f"  fma.rn.f32 %f{a}, %f{b}, %f{c}, %f{a};"
    if choice < 0.6:
        return f"  add.f32 %f{a}, %f{b}, %f{c};"
    if choice < 0.85:
        return f"  {rng.choice(['add.s32', 'mul.lo.s32', 'and.b32', 'xor.b32'])} %r{max(a, 1)}, %r{b}, %r{c};"
    if choice < 0.95:
        return f"  ld.global.f32 %f{a}, [%rd1+{256 * rng.randrange(4)}];"
    return f"  st.global.f32 [%rd2+{256 * rng.randrange(4)}], %f{a};"


def instructions(ptx: str) -> int:
    """Count the instructions of the kernels of a module."""
    bodies = [function.body or () for function in parse(ptx).functions.values()]
    return sum(isinstance(one, Instruction) for body in bodies for one in body)


def first_launch_ms(ptx: str, entry: str, arguments: tuple[Buffer | Scalar, ...], repeat: int) -> float:
    """Return the median processor time in milliseconds from PTX to the end of a first launch of one block."""
    request = Request(
        Artifact("k.cu", "sm_80", ptx, b"", {}, {}, ""), entry, (1, 1, 1), (64, 1, 1), 0, arguments, MEMORY
    )
    times = []
    for _ in range(repeat):
        with nothing_cached():
            started = time.process_time()
            outcome = Emulator().run(request)
            times.append((time.process_time() - started) * 1e3)
        assert outcome.status in ("completed", "trapped"), outcome.events
    return statistics.median(times)


def measure(sizes: list[int], repeat: int) -> dict[str, Any]:
    """Measure generated kernels of all kinds and sizes, and the peers' kernels."""
    memory = tuple(Buffer(name, np.zeros(2048, np.uint8)) for name in "xy")
    rows = []
    for kind in KINDS:
        for size in sizes:
            ptx = generated(kind, size)
            rows.append(_row(kind, ptx, first_launch_ms(ptx, "k", memory, repeat)))
    whole = compile_ptx()
    for case in cases():
        ptx = only(whole, case.name)
        # Translation is measured, so the arguments need not be valid: small buffers, and scalars of zero.
        arguments = tuple(
            Buffer(f"a{i}", np.zeros(1 << 16, np.uint8)) if isinstance(one, np.ndarray) else Scalar(f"a{i}", bytes(4))
            for i, one in enumerate(case.arguments)
        )
        rows.append(_row(case.name, ptx, first_launch_ms(ptx, case.name, arguments, repeat)))
    growth = {kind: _growth([row for row in rows if row["kind"] == kind]) for kind in KINDS}
    return {"kernels": rows, "growth": growth}


def _row(kind: str, ptx: str, milliseconds: float) -> dict[str, Any]:
    count = instructions(ptx)
    return {"kind": kind, "instructions": count, "ms": milliseconds, "us_per_instruction": 1e3 * milliseconds / count}


def _growth(rows: list[dict[str, Any]]) -> float | None:
    """Return the exponent of a power law fitted to measurements of 400 or more instructions."""
    large = [(math.log(row["instructions"]), math.log(row["ms"])) for row in rows if row["instructions"] >= 400]
    return statistics.linear_regression(*zip(*large, strict=True)).slope if len(large) > 1 else None


def svg(result: dict[str, Any]) -> str:
    """Return a log-log plot of milliseconds over instructions; dashed lines are linear growth."""
    width, height, margin = 640, 400, 56
    rows = result["kernels"]
    right = max(row["instructions"] for row in rows) * 1.3
    top = max(row["ms"] for row in rows) * 1.5
    left, bottom = 15, 5

    def x(value: float) -> float:
        return margin + (width - 2 * margin) * math.log(value / left) / math.log(right / left)

    def y(value: float) -> float:
        return height - margin - (height - 2 * margin) * math.log(value / bottom) / math.log(top / bottom)

    def text(at_x: float, at_y: float, words: str, anchor: str = "middle") -> str:
        return f'<text x="{at_x:.0f}" y="{at_y:.0f}" text-anchor="{anchor}">{words}</text>'

    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}"',
        ' font-family="sans-serif" font-size="11">',
        f'<rect width="{width}" height="{height}" fill="white"/>',
    ]
    for power in range(1, 6):
        if bottom <= 10**power <= top:
            where = y(10**power)
            parts.append(f'<path d="M{margin} {where:.0f}H{width - margin}" stroke="#ddd"/>')
            parts.append(text(margin - 6, where + 4, f"{10**power:,} ms", "end"))
        if left <= 10**power <= right:
            parts.append(text(x(10**power), height - margin + 18, f"{10**power:,}"))
    for rate in (0.1, 1.0):
        start, end = max(left, bottom / rate), min(right, top / rate)
        line = f"M{x(start):.0f} {y(start * rate):.0f}L{x(end):.0f} {y(end * rate):.0f}"
        parts.append(f'<path d="{line}" stroke="#bbb" stroke-dasharray="4"/>')
        parts.append(text(x(end) - 4, y(end * rate) - 4, f"{rate:g} ms each", "end"))
    parts.append(text(width / 2, height - 12, "PTX instructions"))
    colours = dict(zip(KINDS, ("#1f5fbf", "#c2571a", "#2a8a4a"), strict=True))
    for number, (kind, colour) in enumerate(colours.items()):
        mine = sorted((row["instructions"], row["ms"]) for row in rows if row["kind"] == kind)
        line = "L".join(f"{x(a):.0f} {y(b):.0f}" for a, b in mine)
        parts.append(f'<path d="M{line}" fill="none" stroke="{colour}" stroke-width="2"/>')
        parts.append(f'<text x="{margin + 12}" y="{margin + 14 * number}" fill="{colour}">{kind}</text>')
    for row in rows:
        if row["kind"] not in KINDS:
            parts.append(f'<circle cx="{x(row["instructions"]):.0f}" cy="{y(row["ms"]):.0f}" r="3" fill="#444"/>')
    parts.append(text(margin + 12, margin + 42, "dots: kernels of benchmarks/peers", "start"))
    return "\n".join([*parts, "</svg>", ""])


def main() -> None:
    """Measure on one core, print, and optionally plot."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--sizes", type=int, nargs="*", default=list(SIZES))
    parser.add_argument("--svg", type=Path)
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    result = measure(options.sizes, options.repeat)
    if options.svg is not None:
        options.svg.write_text(svg(result))
    if options.json:
        json.dump(result, sys.stdout, indent=2)
        print()
        return
    print(f"{'kind':<18}{'instructions':>14}{'ms':>10}{'us each':>10}")
    for row in result["kernels"]:
        print(f"{row['kind']:<18}{row['instructions']:>14}{row['ms']:>10.1f}{row['us_per_instruction']:>10.0f}")
    for kind, growth in result["growth"].items():
        print(f"{kind}: grows as size to the {growth:.2f}" if growth is not None else f"{kind}: too few sizes")


if __name__ == "__main__":
    main()
