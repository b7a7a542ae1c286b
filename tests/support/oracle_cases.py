"""Plans, references and outcomes for the oracle's tests. The "kernels" are NumPy functions in fp32 or fp16."""

from __future__ import annotations

import math

import numpy as np

from gpuemu_lsp.engine.execution import Buffer, Outcome
from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.fuzz import cases, pack_arguments, rebuild
from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype
from gpuemu_lsp.engine.fuzz.model import CaseKey
from gpuemu_lsp.engine.oracle import JudgingPolicy, Numerics, ReferenceEvaluation, call, judge, load
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import parse
from gpuemu_lsp.engine.project.model import DimSpec

F32 = Numerics(frozenset({"f32"}))
F16 = Numerics(frozenset({"f16"}))


def tensor(name, direction, shape, dtype="float32", **fields):
    return TensorArg(name, fields.pop("key", name), direction, dtype, tuple(parse(e) for e in shape), **fields)


def scalar(name, value, dtype="int32"):
    return ScalarArg(name, name, dtype, parse(value) if isinstance(value, str) else value)


def plan(args, dims, grid=("1",), block=("32",)):
    place = Place("/kernel.cu", Range.of(0, 0, 0, 1))
    sizes = tuple(DimSpec(d) if isinstance(d, str) else d for d in dims)
    launch = (tuple(parse(e) for e in grid), tuple(parse(e) for e in block), parse(0))
    return Plan("kernel", "kernel", "float32", tuple(args), sizes, *launch, place)


def rows(dtype="float32", out="float32"):
    """Return a plan of ``x[r, c] -> y[r, c]``."""
    return plan(
        [tensor("x", "in", ["r", "c"], dtype), tensor("y", "out", ["r", "c"], out)], ["r", "c"], ("r",), ("256",)
    )


def case_of(drawn, values, dims, seed=5):
    return rebuild(drawn, CaseKey(seed, f"default/{values}", dims))


def reference(folder, body, header="import numpy as np, math", signature="inputs, **kwargs"):
    """Write and load a reference; ``body`` is the function's body."""
    indented = "\n".join("    " + line for line in body.strip("\n").split("\n"))
    path = folder / "ref.py"
    path.write_text(f"{header}\n\ndef reference({signature}):\n{indented}\n")
    return load(str(path))


def outcome(drawn, case, outputs, written=True, **changed):
    """Return the outcome of a launch that stored ``outputs``."""
    buffers = {a.name: a.data.copy() for a in pack_arguments(drawn, case) if isinstance(a, Buffer)}
    for arg in drawn.args:
        if isinstance(arg, TensorArg) and arg.param in outputs:
            values = np.asarray(outputs[arg.param]).astype(numpy_dtype(arg.dtype))
            buffers[arg.param] = np.ascontiguousarray(values).view(np.uint8).ravel()
    buffers.update(changed)
    masks = {name: np.full(data.size, name in outputs) for name, data in buffers.items()} if written else None
    return Outcome("completed", "numpy", buffers, masks)


def verdict(ref, drawn, case, kernel, numerics=F32, **options):
    """Run a NumPy kernel on a case and judge it."""
    with np.errstate(all="ignore"):
        outputs = kernel({name: value.copy() for name, value in case.tensors.items()})
    ran = outcome(drawn, case, outputs)
    evaluation = ReferenceEvaluation(ref, drawn, case, call(ref, drawn, case), numerics)
    return judge(drawn, case, ran, evaluation, JudgingPolicy(**options))


def drawn_cases(drawn, count=8, seed=42, strategy="quick"):
    return list(cases(drawn, seed, count, None, strategy))


# ---- pieces of kernels, in the arithmetic of their arguments ---------------------------------------------------------


def const(x, value):
    return x.dtype.type(value)


def seq_sum(x, axis=-1):
    """Sum as one thread does, from left to right."""
    return np.take(np.cumsum(x, axis=axis, dtype=x.dtype), [-1], axis=axis)


def tree_sum(x):
    """Sum as a block does: strided by lanes, then pairwise."""
    width = 32
    steps = -(-x.shape[-1] // width)
    padded = np.zeros((*x.shape[:-1], steps * width), x.dtype)
    padded[..., : x.shape[-1]] = x
    lanes = seq_sum(padded.reshape(*x.shape[:-1], steps, width), axis=-2)[..., 0, :]
    while lanes.shape[-1] > 1:
        half = lanes.shape[-1] // 2
        lanes = lanes[..., :half] + lanes[..., half:]
    return lanes


def softmax(x, total=seq_sum):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / total(e)


def online_softmax(x):
    top = np.full(x.shape[:-1], -np.inf, x.dtype)
    total = np.zeros(x.shape[:-1], x.dtype)
    for i in range(x.shape[-1]):
        new = np.maximum(top, x[..., i])
        # Minus infinity less minus infinity is NaN, in a row that begins with it.
        before, own = (np.where(value == -np.inf, x.dtype.type(0), np.exp(value - new)) for value in (top, x[..., i]))
        total = total * before + own
        top = new
    return np.exp(x - top[..., None]) / total[..., None]


def layer_norm(x, total=seq_sum, eps=1e-5):
    count = const(x, x.shape[-1])
    centred = x - total(x) / count
    return centred / np.sqrt(total(centred * centred) / count + const(x, eps))


def layer_norm_one_pass(x, eps=1e-5):
    count = const(x, x.shape[-1])
    mean = seq_sum(x) / count
    variance = np.maximum(seq_sum(x * x) / count - mean * mean, const(x, 0))
    return (x - mean) / np.sqrt(variance + const(x, eps))


def gelu(x, half=0.5, cubic=0.044715):
    inner = const(x, math.sqrt(2 / math.pi)) * (x + const(x, cubic) * x * x * x)
    return const(x, half) * x * (const(x, 1) + np.tanh(inner))


def matmul(a, b):
    c = np.zeros((a.shape[0], b.shape[1]), a.dtype)
    for k in range(a.shape[1]):
        c = c + a[:, k : k + 1] * b[k : k + 1]
    return c
