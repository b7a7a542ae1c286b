"""Planted errors in forward and backward of small operations are found, and correct ones pass."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import Function

from gpuemu.frameworks.pytorch import (
    GradientNotCheckedError,
    check_autograd,
    check_backward,
    validate_custom_autograd_function,
)


def make(forward, backward):
    """Return an operation from `forward(ctx, *args)` and `backward(ctx, *grads)`."""
    return type("Op", (Function,), {"forward": staticmethod(forward), "backward": staticmethod(backward)}).apply


def saving(function):
    def forward(ctx, *args):
        ctx.save_for_backward(*args)
        return function(*args)

    return forward


def _sigmoid(x):
    return 1 / (1 + torch.exp(-x))


def _in_place(ctx, x):
    ctx.save_for_backward(x)
    return x.mul_(2)


def _clobbers_saved(ctx, g):
    (x,) = ctx.saved_tensors
    grad = g * 2 * x
    x.zero_()
    return grad


def _reads_storage(ctx, g):
    (x,) = ctx.saved_tensors
    flat = torch.as_strided(g, (x.numel(),), (1,), g.storage_offset())
    return flat.reshape(x.shape) * 2 * x


def _changes_grad(ctx, g):
    (x,) = ctx.saved_tensors
    return g.mul_(2 * x)


def _rms(x, w):
    return x * torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6) * w


def _rms_backward(ctx, g, *, scale=1.0, mean=True):
    x, w = ctx.saved_tensors
    n = x.shape[-1]
    r = torch.rsqrt(x.square().mean(-1, keepdim=True) + 1e-6)
    gw = (g * x * r).sum(tuple(range(g.ndim - 1)))
    dot = (g * w * x).sum(-1, keepdim=True)
    gx = r * (g * w) - (r**3 * x * dot / n if mean else 0)
    return gx * scale, gw


def _softmax_backward(ctx, g, *, centred=True):
    (x,) = ctx.saved_tensors
    p = torch.softmax(x, -1)
    return p * (g - ((g * p).sum(-1, keepdim=True) if centred else 0))


def _matmul_backward(ctx, g, *, transpose=True, scale=1.0):
    a, b = ctx.saved_tensors
    return g @ b.mT * scale, (a.mT @ g if transpose else (a.mT @ g).flip(0))


X = torch.randn(6, 5, generator=torch.Generator().manual_seed(1))
Y = torch.randn(6, 5, generator=torch.Generator().manual_seed(2))
W = torch.randn(5, generator=torch.Generator().manual_seed(3))
A, B = torch.randn(6, 7, generator=torch.Generator().manual_seed(4)), X.new_tensor(Y.T[:5, :5].tolist())
S = (7, 5)
M = torch.randn(S, generator=torch.Generator().manual_seed(5))

REFERENCES = {
    "square": lambda x: x * x,
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "silu": F.silu,
    "gelu": lambda x: F.gelu(x, approximate="tanh"),
    "relu": torch.relu,
    "exp": torch.exp,
    "softplus": F.softplus,
    "mul": lambda x, y: x * y,
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "softmax": lambda x: torch.softmax(x, -1),
    "matmul": lambda x, y: x @ y,
    "rms": _rms,
    "scale": lambda x: x * 3,
    "double": lambda x: x * 2,
}

CORRECT = {
    "square": (make(saving(lambda x: x * x), lambda ctx, g: g * 2 * ctx.saved_tensors[0]), [X]),
    "sigmoid": (make(saving(_sigmoid), lambda ctx, g: g * (s := _sigmoid(ctx.saved_tensors[0])) * (1 - s)), [X]),
    "tanh": (make(saving(torch.tanh), lambda ctx, g: g * (1 - torch.tanh(ctx.saved_tensors[0]) ** 2)), [X]),
    "silu": (
        make(
            saving(lambda x: x * _sigmoid(x)),
            lambda ctx, g: g * (s := _sigmoid(x := ctx.saved_tensors[0])) * (1 + x * (1 - s)),
        ),
        [X],
    ),
    "relu": (make(saving(lambda x: x.clamp(min=0)), lambda ctx, g: g * (ctx.saved_tensors[0] > 0)), [X]),
    "exp": (make(saving(torch.exp), lambda ctx, g: g * torch.exp(ctx.saved_tensors[0])), [X]),
    "softplus": (
        make(saving(lambda x: torch.log1p(torch.exp(x))), lambda ctx, g: g * _sigmoid(ctx.saved_tensors[0])),
        [X],
    ),
    "mul": (
        make(saving(lambda x, y: x * y), lambda ctx, g: (g * ctx.saved_tensors[1], g * ctx.saved_tensors[0])),
        [X, Y],
    ),
    "sum": (make(saving(lambda x: x.sum(1)), lambda ctx, g: g[:, None].expand_as(ctx.saved_tensors[0])), [X]),
    "mean": (
        make(saving(lambda x: x.sum(1) / x.shape[1]), lambda ctx, g: (g / 5)[:, None].expand_as(ctx.saved_tensors[0])),
        [X],
    ),
    "softmax": (make(saving(lambda x: torch.softmax(x, -1)), _softmax_backward), [X]),
    "matmul": (make(saving(lambda a, b: a @ b), _matmul_backward), [A, M]),
    "rms": (make(saving(_rms), _rms_backward), [X, W]),
    "scale": (make(saving(lambda x: x + x + x), lambda ctx, g: 3 * g), [X]),
    "gelu": (lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), [X]),
    "double": (make(lambda ctx, x: x * 2, lambda ctx, g: g.contiguous() * 2), [X]),
}
SAME_IN = {
    "square-half": ("square", CORRECT["square"][0], [X.half()]),
    "softmax-bf16": ("softmax", CORRECT["softmax"][0], [X.bfloat16()]),
    "matmul-half": ("matmul", CORRECT["matmul"][0], [A.half(), M.half()]),
    "rms-large": (
        "rms",
        CORRECT["rms"][0],
        [
            torch.randn(64, 513, generator=torch.Generator().manual_seed(6)),
            torch.randn(513, generator=torch.Generator().manual_seed(7)),
        ],
    ),
}

square = saving(lambda x: x * x)
WRONG = {
    "scale": ("square", make(square, lambda ctx, g: g * ctx.saved_tensors[0]), [X]),
    "slight-scale": ("square", make(square, lambda ctx, g: g * 2.001 * ctx.saved_tensors[0]), [X]),
    "sign": ("tanh", make(saving(torch.tanh), lambda ctx, g: -g * (1 - torch.tanh(ctx.saved_tensors[0]) ** 2)), [X]),
    "missing-term": (
        "silu",
        make(saving(lambda x: x * _sigmoid(x)), lambda ctx, g: g * _sigmoid(ctx.saved_tensors[0])),
        [X],
    ),
    "missing-mean": ("rms", make(saving(_rms), lambda ctx, g: _rms_backward(ctx, g, mean=False)), [X, W]),
    "not-centred": (
        "softmax",
        make(saving(lambda x: torch.softmax(x, -1)), lambda ctx, g: _softmax_backward(ctx, g, centred=False)),
        [X],
    ),
    "saved-output": (
        "sigmoid",
        make(
            lambda ctx, x: (ctx.save_for_backward(x), _sigmoid(x))[1],
            lambda ctx, g: g * (s := ctx.saved_tensors[0]) * (1 - s),
        ),
        [X],
    ),
    "swapped-saved": (
        "mul",
        make(saving(lambda x, y: x * y), lambda ctx, g: (g * ctx.saved_tensors[0], g * ctx.saved_tensors[1])),
        [X, Y],
    ),
    "in-place-input": ("double", make(_in_place, lambda ctx, g: g * 2), [X]),
    "in-place-saved": ("square", make(square, _clobbers_saved), [X]),
    "in-place-grad": ("square", make(square, _changes_grad), [X]),
    "grad-storage": ("square", make(square, _reads_storage), [X]),
    "no-mean": (
        "mean",
        make(saving(lambda x: x.mean(1)), lambda ctx, g: g[:, None].expand_as(ctx.saved_tensors[0])),
        [X],
    ),
    "rows-reversed": (
        "matmul",
        make(saving(lambda a, b: a @ b), lambda ctx, g: _matmul_backward(ctx, g, transpose=False)),
        [A, M],
    ),
    "one-of-two": (
        "matmul",
        make(saving(lambda a, b: a @ b), lambda ctx, g: _matmul_backward(ctx, g, scale=0.5)),
        [A, M],
    ),
    "relu-at-zero": (
        "relu",
        make(saving(lambda x: x.clamp(min=0)), lambda ctx, g: g * (ctx.saved_tensors[0] > -0.5)),
        [X],
    ),
    "none": ("mul", make(saving(lambda x, y: x * y), lambda ctx, g: (g * ctx.saved_tensors[1], None)), [X, Y]),
    "forward-constant": (
        "gelu",
        lambda x: 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.0447 * x**3))),
        [X],
    ),
    "forward-last-row": ("exp", lambda x: torch.cat([torch.exp(x[:-1]), x[-1:]]), [X]),
    "detached": ("square", lambda x: x * x.detach(), [X]),
    "nan": (
        "sigmoid",
        make(
            saving(_sigmoid),
            lambda ctx, g: (
                g
                * torch.where(
                    ctx.saved_tensors[0] > 1,
                    float("nan"),
                    _sigmoid(ctx.saved_tensors[0]) * (1 - _sigmoid(ctx.saved_tensors[0])),
                )
            ),
        ),
        [X],
    ),
}


@pytest.mark.parametrize("name", [*CORRECT, *SAME_IN])
def test_correct_operations_pass(name):
    reference, op, inputs = SAME_IN[name] if name in SAME_IN else (name, *CORRECT[name])
    check = check_backward(op, inputs, REFERENCES[reference])
    assert check.passed, check.failures


@pytest.mark.parametrize("name", WRONG)
def test_wrong_operations_are_found(name):
    reference, op, inputs = WRONG[name]
    check = check_backward(op, inputs, REFERENCES[reference])
    assert check.failures


def test_there_are_enough_of_both():
    assert len(CORRECT) + len(SAME_IN) >= 20
    assert len(WRONG) >= 20


@pytest.mark.parametrize("name", CORRECT)
def test_finite_differences_agree_with_correct_gradients(name):
    op, inputs = CORRECT[name]
    assert check_autograd(op, inputs)


@pytest.mark.parametrize(
    "name",
    [
        "scale",
        "slight-scale",
        "sign",
        "missing-term",
        "missing-mean",
        "not-centred",
        "swapped-saved",
        "no-mean",
        "rows-reversed",
        "one-of-two",
        "relu-at-zero",
        "none",
        "detached",
        "nan",
    ],
)
def test_finite_differences_find_wrong_gradients(name):
    _, op, inputs = WRONG[name]
    assert not check_autograd(op, inputs)


def test_inputs_by_name():
    check = check_backward(lambda *, q, k: q @ k.mT, {"q": A, "k": A}, lambda q, k: q @ k.mT)
    assert check.passed
    check = check_backward(lambda q, k: q @ k.mT * 1.01, {"q": A, "k": A}, lambda q, k: q @ k.mT)
    assert check.failures[0].message.startswith("result[")


def test_what_cannot_be_checked_is_an_error():
    with pytest.raises(GradientNotCheckedError, match="no input"):
        check_backward(torch.neg, [torch.arange(3)], torch.neg)
    with pytest.raises(GradientNotCheckedError, match="less than fp64"):
        check_backward(lambda x: x.float() * 2, [X])
    with pytest.raises(GradientNotCheckedError, match="in fp64"):
        check_backward(lambda x: x * 2, [X], lambda x: x @ torch.ones(5, 5))


def test_custom_functions():
    class Square(Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return g * ctx.saved_tensors[0]

    found = validate_custom_autograd_function(Square, [X])
    assert (found["forward_ok"], found["backward_ok"]) == (True, False)
    assert "by finite differences" in found["details"][0]
