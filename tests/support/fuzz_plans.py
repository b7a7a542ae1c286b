"""Plans to draw cases for: one per kind of launch."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import parse
from gpuemu_lsp.engine.project.model import DimSpec

PLACE = Place("/kernel.cu", Range.of(0, 0, 0, 1))


def tensor(name, direction, shape, dtype="float32", **fields):
    return TensorArg(name, fields.pop("key", name), direction, dtype, tuple(parse(e) for e in shape), **fields)


def scalar(name, value, dtype="int32"):
    return ScalarArg(name, name, dtype, parse(value) if isinstance(value, str) else value)


def plan(args, dims, grid, block, shared="0", inferred=False, entry="kernel"):
    return Plan(
        "kernel",
        entry,
        "float32",
        tuple(args),
        tuple(dims),
        tuple(parse(e) for e in grid),
        tuple(parse(e) for e in block),
        parse(shared),
        PLACE,
        inferred,
    )


FLAT = plan(
    [tensor("x", "in", ["n"]), tensor("y", "out", ["n"]), scalar("n", "n")],
    [DimSpec("n")],
    ["ceil_div(n, 256)"],
    ["256"],
)
FIXED_GRID = plan([tensor("x", "in", ["n"]), tensor("y", "out", ["n"])], [DimSpec("n")], ["32"], ["256"])
ROWS = plan(
    [tensor("x", "in", ["rows", "cols"]), tensor("y", "out", ["rows", "cols"]), scalar("cols", "cols")],
    [DimSpec("rows", 1, 64), DimSpec("cols", 1, 2048, (1025, 777))],
    ["rows"],
    ["256"],
)
MATMUL = plan(
    [tensor("a", "in", ["M", "K"]), tensor("b", "in", ["K", "N"]), tensor("c", "out", ["M", "N"])],
    [DimSpec("M"), DimSpec("N"), DimSpec("K")],
    ["ceil_div(N, 16)", "ceil_div(M, 16)"],
    ["16", "16"],
)
ATTENTION = plan(
    [tensor(name, "in", ["B", "H", "S", "D"]) for name in "qkv"] + [tensor("o", "out", ["B", "H", "S", "D"])],
    [DimSpec("B"), DimSpec("H"), DimSpec("S"), DimSpec("D", 8, 64, (), 1, (8, 16, 64))],
    ["B * H", "S"],
    ["D"],
)
BLOCK_IS_SIZE = plan(
    [tensor("x", "in", ["n"]), tensor("y", "out", ["n"])], [DimSpec("n", 1, 5000)], ["1"], ["n"], shared="4 * n"
)
VECTOR4 = plan(
    [tensor("x", "in", ["n"]), tensor("y", "out", ["n"])],
    [DimSpec("n", 4, 4096, (), 4)],
    ["ceil_div(n // 4, 128)"],
    ["128"],
)
ALL = {
    "flat": FLAT,
    "fixed grid": FIXED_GRID,
    "rows": ROWS,
    "matmul": MATMUL,
    "attention": ATTENTION,
    "block is size": BLOCK_IS_SIZE,
    "vector of four": VECTOR4,
}
