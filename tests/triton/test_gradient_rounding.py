"""Correct gradients that look wrong are not failures, and wrong ones that look right are.

Correct: rounding in 16 bits, long sums, masks, and points without a derivative. Wrong: for some layouts, in the tail of
a dimension, by accumulation in 16 bits, or in the second derivative only.
"""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from test_gradients import make, saving
from torch.autograd import Function

from gpuemu.frameworks.pytorch import check_backward, check_double_backward

_RANDOM = torch.Generator().manual_seed(0)


def normal(*shape):
    return torch.randn(*shape, generator=_RANDOM)


def saved(ctx):
    return ctx.saved_tensors


def rms(x, w):
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w


def gelu(x):
    return 0.5 * x * (1 + torch.tanh(0.7978845608 * (x + 0.044715 * x**3)))


def softmax(x):
    e = torch.exp(x - x.amax(-1, keepdim=True))
    return e / e.sum(-1, keepdim=True)


def attention(q, k, v, mask=None):
    scores = q @ k.mT / math.sqrt(q.shape[-1])
    return torch.softmax(scores if mask is None else scores.masked_fill(mask, -math.inf), -1) @ v


CAUSAL = torch.ones(9, 9).triu(1).bool()
BAND = (torch.arange(9)[:, None] - torch.arange(9)).abs() > 2
ROW = torch.arange(9)[:, None].expand(9, 9) == 4
QKV = [normal(2, 9, 16) for _ in range(3)]

NARROW = {
    "gelu": (gelu, gelu, [(8, 33)]),
    "silu": (lambda x: x * torch.sigmoid(x), F.silu, [(8, 33)]),
    "rms": (rms, rms, [(8, 33), (33,)]),
    "rms in fp32": (lambda x, w: rms(x.float(), w.float()).to(x.dtype), rms, [(8, 33), (33,)]),
    "softmax": (softmax, lambda x: torch.softmax(x, -1), [(8, 33)]),
    "layer norm": (lambda x, w: F.layer_norm(x, (65,), w), lambda x, w: F.layer_norm(x, (65,), w), [(8, 65), (65,)]),
    "attention": (
        lambda *qkv: F.scaled_dot_product_attention(*qkv, is_causal=True),
        lambda *qkv: attention(*qkv, CAUSAL),
        [(2, 9, 16)] * 3,
    ),
    "mlp": (
        lambda x, a, b: torch.relu(x @ a) @ b,
        lambda x, a, b: torch.relu(x @ a) @ b,
        [(5, 33), (33, 64), (64, 7)],
    ),
    "long sum": (lambda x: x.sum(-1), lambda x: x.sum(-1), [(3, 5000)]),
    "gate": (lambda a, b: F.silu(a) * b, lambda a, b: F.silu(a) * b, [(9, 33), (9, 33)]),
}


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("name", NARROW)
def test_operations_that_round_to_16_bits_pass(name, dtype):
    op, reference, shapes = NARROW[name]
    check = check_backward(op, [normal(*shape).to(dtype) for shape in shapes], reference)
    assert check.passed, check.failures


ZEROS = normal(6, 7)
ZEROS[0, :3] = 0
ZEROS[2] = 0
TIES = torch.tensor([[1.0, 3.0, 3.0, 2.0], [0.0, 0.0, 0.0, 0.0], [5.0, 1.0, 5.0, 5.0]])
EDGES = torch.tensor([-2.0, -1.0, -0.5, 0.0, 1.0, 1.5])

CORRECT = {
    "relu, 1 at 0": (
        make(saving(lambda x: x.clamp(min=0)), lambda ctx, g: g * (saved(ctx)[0] >= 0)),
        torch.relu,
        [ZEROS],
    ),
    "relu, half at 0": (
        make(saving(lambda x: x.clamp(min=0)), lambda ctx, g: g * (1 + saved(ctx)[0].sign()) / 2),
        torch.relu,
        [ZEROS],
    ),
    "relu of zeros": (lambda x: x.clamp(min=0), torch.relu, [torch.zeros(4, 5)]),
    "abs": (lambda x: torch.where(x >= 0, x, -x), torch.abs, [ZEROS]),
    "leaky relu": (lambda x: F.leaky_relu(x, 0.1), lambda x: torch.where(x >= 0, x, 0.1 * x), [ZEROS]),
    "clamp": (lambda x: x.clamp(-1, 1), lambda x: torch.maximum(-x.new_ones(()), x).minimum(x.new_ones(())), [EDGES]),
    "hardtanh": (F.hardtanh, lambda x: x.clamp(-1, 1), [EDGES]),
    "shared maxima": (lambda x: x.amax(-1), lambda x: x.max(-1).values, [TIES]),
    "first maximum": (lambda x: x.max(-1).values, lambda x: x.amax(-1), [TIES]),
    "many maxima": (lambda x: x.amax(-1), lambda x: x.max(-1).values, [torch.zeros(2, 50)]),
    "max pooling": (
        lambda x: F.max_pool2d(x, 2),
        lambda x: x.unfold(2, 2, 2).unfold(3, 2, 2).amax((-1, -2)),
        [torch.round(normal(2, 2, 6, 6))],
    ),
    "sort": (lambda x: x.sort(-1).values, lambda x: torch.gather(x, -1, x.argsort(-1)), [normal(5, 9)]),
    "sort of equals": (lambda x: x.sort(-1).values, lambda x: torch.gather(x, -1, x.argsort(-1)), [TIES]),
    "top three": (lambda x: x.topk(3).values, lambda x: x.sort(-1, descending=True).values[:, :3], [normal(5, 9)]),
    "branch": (
        lambda x: x * 2 if x.sum() > 0 else x * 3,
        lambda x: x + x if x.sum() > 0 else x * 3,
        [normal(5, 5).abs()],
    ),
    "logarithm in a branch": (
        lambda x: torch.where(x > 0, torch.log(x.clamp(min=1e-6)), x),
        lambda x: torch.where(x > 0, torch.log(torch.where(x > 0, x, torch.ones_like(x))), x),
        [normal(6, 7)],
    ),
    "causal mask": (
        lambda q, k, v: (
            torch.softmax((q @ k.mT / 4).masked_fill(CAUSAL, torch.finfo(q.dtype).min), -1) @ v  # no infinity
        ),
        lambda q, k, v: attention(q, k, v, CAUSAL),
        QKV,
    ),
    "band mask": (lambda q, k, v: attention(q, k, v, BAND), lambda q, k, v: attention(q, k, v, BAND), QKV),
    "row without keys": (
        lambda q, k, v: attention(q, k, v.nan_to_num(), ROW).nan_to_num(),
        lambda q, k, v: attention(q, k, v, ROW).nan_to_num(),
        QKV,
    ),
    "long sum": (lambda x: x.flip(-1).sum(-1), lambda x: x.sum(-1), [normal(3, 20000)]),
    "long logsumexp": (
        lambda x: torch.log(torch.exp(x).sum(-1)),
        lambda x: torch.logsumexp(x, -1),
        [normal(4, 3000)],
    ),
    "variance of two sums": (
        lambda x: (x * x).mean(-1) - x.mean(-1) ** 2,
        lambda x: x.var(-1, unbiased=False),
        [normal(8, 100)],
    ),
    "division near 0": (
        lambda x: x / (x.abs() + 1e-3),
        lambda x: x * torch.reciprocal(x.abs() + 1e-3),
        [normal(6, 6) * 1e-3],
    ),
    "rows used twice": (
        lambda w: w[torch.tensor([0, 2, 2, 1])],
        lambda w: F.embedding(torch.tensor([0, 2, 2, 1]), w),
        [normal(4, 5)],
    ),
    "straight through": (
        lambda x: x + (x.round() - x).detach(),
        make(lambda ctx, x: x.round(), lambda ctx, g: g),
        [normal(5, 6)],
    ),
}


@pytest.mark.parametrize("name", CORRECT)
def test_correct_gradients_that_look_wrong_pass(name):
    op, reference, inputs = CORRECT[name]
    check = check_backward(op, inputs, reference)
    assert check.passed, check.failures


def _tail(ctx, g):
    grad = 2 * saved(ctx)[0] * g
    grad[..., 32:] /= 2
    return grad


def _for_contiguous(ctx, g):
    return 2 * saved(ctx)[0] * (g if g.is_contiguous() else g.contiguous().flip(-1))


def _summed_in_its_format(x):
    total = torch.zeros(x.shape[:-1], dtype=x.dtype)
    for column in x.unbind(-1):
        total = total + column
    return total


def _product_in_fp16(a, b):
    total = torch.zeros(a.shape[0], b.shape[1], dtype=a.dtype)
    for column, row in zip(a.unbind(1), b.unbind(0), strict=True):
        total = total + column[:, None] * row
    return total


def _square(backward):
    return make(saving(lambda x: x * x), backward)


WRONG = {
    "right for contiguous cotangents": (_square(_for_contiguous), torch.square, [normal(4, 33)]),
    "a factor in the tail": (_square(_tail), torch.square, [normal(4, 40)]),
    "the last row": (
        _square(lambda ctx, g: torch.cat([(2 * saved(ctx)[0] * g)[:-1], torch.zeros_like(g[-1:])])),
        torch.square,
        [normal(5, 9)],
    ),
    "sum in fp16": (
        make(saving(_summed_in_its_format), lambda ctx, g: g[..., None].expand_as(saved(ctx)[0])),
        lambda x: x.sum(-1),
        [normal(4, 1024).abs().half()],
    ),
    "product in fp16": (
        make(saving(_product_in_fp16), lambda ctx, g: (g @ saved(ctx)[1].mT, saved(ctx)[0].mT @ g)),
        lambda a, b: a @ b,
        [normal(8, 1024).half(), normal(1024, 8).half()],
    ),
    "gradient of a weight in fp16": (
        make(
            saving(lambda x, w: x * w),
            lambda ctx, g: (g * saved(ctx)[1], _summed_in_its_format((g * saved(ctx)[0]).mT)),
        ),
        lambda x, w: x * w,
        [normal(1024, 4).abs().half(), normal(4).half()],
    ),
    "backward in fp16 of fp32": (
        make(
            saving(lambda a, b: a @ b),
            lambda ctx, g: ((g.half() @ saved(ctx)[1].half().mT).float(), saved(ctx)[0].mT @ g),
        ),
        lambda a, b: a @ b,
        [normal(8, 64), normal(64, 8)],
    ),
    "2.5 % in fp16": (_square(lambda ctx, g: 2.05 * saved(ctx)[0] * g), torch.square, [normal(5, 9).half()]),
    "10 % in bf16": (_square(lambda ctx, g: 2.2 * saved(ctx)[0] * g), torch.square, [normal(5, 9).bfloat16()]),
    "relu below 0": (
        make(saving(lambda x: x.clamp(min=0)), lambda ctx, g: g * (saved(ctx)[0] > -0.05)),
        torch.relu,
        [torch.linspace(-1, 1, 101)],
    ),
    "relu above 0 at zeros": (
        make(saving(lambda x: x.clamp(min=0)), lambda ctx, g: g * (saved(ctx)[0] >= 0) * 1.5),
        torch.relu,
        [torch.zeros(9)],
    ),
    "maxima that are not": (
        make(saving(lambda x: x.amax(-1)), lambda ctx, g: g[:, None] * (saved(ctx)[0] > 0)),
        lambda x: x.max(-1).values,
        [TIES],
    ),
    "clamp without an end": (
        make(saving(lambda x: x.clamp(-1, 1)), lambda ctx, g: g),
        lambda x: x.clamp(-1, 1),
        [torch.linspace(-2, 2, 41)],
    ),
    "mean detached": (
        lambda x: x - x.mean(-1, keepdim=True).detach(),
        lambda x: x - x.mean(-1, keepdim=True),
        [normal(5, 9)],
    ),
    "mask off by one": (
        lambda q, k, v: attention(q, k, v, torch.ones(9, 9).triu(2).bool()),
        lambda q, k, v: attention(q, k, v, CAUSAL),
        QKV,
    ),
    "not summed over a broadcast": (
        make(saving(lambda x, w: x * w), lambda ctx, g: (g * saved(ctx)[1], (g * saved(ctx)[0])[0])),
        lambda x, w: x * w,
        [normal(6, 5), normal(5)],
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_gradients_that_look_right_are_found(name):
    op, reference, inputs = WRONG[name]
    assert check_backward(op, inputs, reference).failures


class Exp(Function):
    @staticmethod
    def forward(ctx, x):
        y = torch.exp(x)
        ctx.save_for_backward(y)
        return y

    @staticmethod
    def backward(ctx, g):
        return g * ctx.saved_tensors[0]


class Sigmoid(Function):
    """Its intermediate result is neither an output nor an input, and so has no gradient."""

    @staticmethod
    def forward(ctx, x):
        ctx.result = torch.sigmoid(x)
        return ctx.result.clone()

    @staticmethod
    def backward(ctx, g):
        return g * ctx.result * (1 - ctx.result)


def test_second_gradients():
    x = normal(4, 5)
    assert check_double_backward(Exp.apply, [x], torch.exp).passed
    assert check_double_backward(Exp.apply, [x]).passed
    assert check_double_backward(softmax, [x], lambda x: torch.softmax(x, -1)).passed
    assert check_double_backward(lambda q, k: attention(q, k, k), [x, x], lambda q, k: attention(q, k, k)).passed
    assert check_backward(Sigmoid.apply, [x], torch.sigmoid).passed
    assert check_double_backward(Sigmoid.apply, {"x": x}, torch.sigmoid).failures[0].kind == "MissingGradient"
    assert check_double_backward(Sigmoid.apply, [x]).failures
