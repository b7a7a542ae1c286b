"""Operations computed by another formula than their ground truth: correct ones pass, wrong elements are found."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F

from gpuemu.verifier import EquivalenceChecker, equivalent


def up(f):
    return lambda *a: f(*[x.float() for x in a]).to(a[0].dtype)


def sdpa(q, k, v):
    return torch.softmax(q @ k.mT / math.sqrt(q.shape[-1]), -1) @ v


def flash(q, k, v):
    s = (q.float() @ k.float().mT) / math.sqrt(q.shape[-1])
    m = s.max(-1, keepdim=True).values
    p = torch.exp(s - m)
    total = p.sum(-1, keepdim=True)
    return ((p.to(q.dtype).float() @ v.float()) / total).to(q.dtype)


def ln1(x):
    x32 = x.float()
    m = x32.mean(-1, keepdim=True)
    v = (x32 * x32).mean(-1, keepdim=True) - m * m
    return ((x32 - m) * torch.rsqrt(v + 1e-5)).to(x.dtype)


PAIRS = [
    ("layernorm", lambda x: F.layer_norm(x, (x.shape[-1],)), ln1, [(32, 257)]),
    (
        "softmax",
        lambda x: torch.softmax(x, -1),
        up(
            lambda x: (
                torch.exp(x - x.amax(-1, keepdim=True)) / torch.exp(x - x.amax(-1, keepdim=True)).sum(-1, keepdim=True)
            )
        ),
        [(16, 1000)],
    ),
    ("logsumexp", lambda x: torch.logsumexp(x, -1), up(lambda x: torch.log(torch.exp(x).sum(-1))), [(16, 100)]),
    ("gelu", lambda x: F.gelu(x), up(lambda x: x * 0.5 * torch.erfc(-x / math.sqrt(2))), [(64, 64)]),
    ("silu", F.silu, up(lambda x: x * 0.5 * (1 + torch.tanh(x / 2))), [(64, 64)]),
    (
        "matmul",
        lambda a, b: a @ b,
        up(lambda a, b: sum(a[:, i : i + 16] @ b[i : i + 16] for i in range(0, 256, 16))),
        [(33, 256), (256, 65)],
    ),
    ("attention", sdpa, flash, [(2, 4, 40, 64)] * 3),
    (
        "var",
        lambda x: x.var(-1),
        up(lambda x: ((x * x).sum(-1) - x.sum(-1) ** 2 / x.shape[-1]) / (x.shape[-1] - 1)),
        [(16, 300)],
    ),
    (
        "norm",
        lambda x: x / x.norm(dim=-1, keepdim=True),
        up(lambda x: x * torch.rsqrt((x * x).sum(-1, keepdim=True))),
        [(16, 300)],
    ),
    (
        "cumsum",
        lambda x: x.cumsum(-1),
        up(lambda x: x.flip(-1).cumsum(-1).flip(-1) * -1 + x + x.sum(-1, keepdim=True)),
        [(8, 128)],
    ),
    ("sum", lambda x: x.sum(-1), up(lambda x: x.flip(-1).sum(-1)), [(8, 4096)]),
    ("mse", lambda a, b: F.mse_loss(a, b), up(lambda a, b: ((a - b) ** 2).sum() / a.numel()), [(32, 100)] * 2),
    ("ce", lambda x: F.log_softmax(x, -1), up(lambda x: x - torch.log(torch.exp(x).sum(-1, keepdim=True))), [(32, 50)]),
    (
        "cos",
        lambda a, b: F.cosine_similarity(a, b),
        up(lambda a, b: (a * b).sum(-1) / torch.sqrt((a * a).sum(-1) * (b * b).sum(-1))),
        [(32, 50)] * 2,
    ),
    (
        "conv",
        lambda x, w: F.conv2d(x, w, padding=1),
        up(
            lambda x, w: (F.unfold(x, 3, padding=1).mT @ w.flatten(1).T).mT.reshape(
                x.shape[0], w.shape[0], *x.shape[2:]
            )
        ),
        [(2, 8, 12, 12), (16, 8, 3, 3)],
    ),
    (
        "eager-softmax",
        lambda x: torch.softmax(x, -1),
        lambda x: (e := torch.exp(x - x.amax(-1, keepdim=True))) / e.sum(-1, keepdim=True),
        [(16, 100)],
    ),
    ("eager-silu", F.silu, lambda x: x * torch.sigmoid(x), [(64, 64)]),
    (
        "rope",
        lambda x, t: torch.cat(
            [
                x[..., :16] * torch.cos(t) - x[..., 16:] * torch.sin(t),
                x[..., 16:] * torch.cos(t) + x[..., :16] * torch.sin(t),
            ],
            -1,
        ),
        up(
            lambda x, t: torch.cat(
                [
                    x[..., :16] * torch.cos(t) - x[..., 16:] * torch.sin(t),
                    x[..., 16:] * torch.cos(t) + x[..., :16] * torch.sin(t),
                ],
                -1,
            )
        ),
        [(8, 32), (8, 16)],
    ),
]


def _failed(ground_truth, fast, shapes, dtype, scales):
    checked = equivalent(ground_truth)(fast)
    generator = torch.Generator().manual_seed(0)
    EquivalenceChecker.start(execution_sample_probability=1.0, store=False)
    for scale in scales:
        checked(*[(torch.randn(shape, generator=generator) * scale).to(dtype) for shape in shapes])
    report = EquivalenceChecker.stop()
    assert report.checked == len(scales)
    return report.failures


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16], ids=["f32", "f16", "bf16"])
@pytest.mark.parametrize(
    ("ground_truth", "fast", "shapes"), [pair[1:] for pair in PAIRS], ids=[pair[0] for pair in PAIRS]
)
def test_another_formula_is_not_a_failure(ground_truth, fast, shapes, dtype):
    assert not _failed(ground_truth, fast, shapes, dtype, (1, 1, 1, 3, 3, 0.1))


@pytest.mark.parametrize(
    ("ground_truth", "fast", "shapes"), [pair[1:] for pair in PAIRS], ids=[pair[0] for pair in PAIRS]
)
def test_one_wrong_element_is_a_failure(ground_truth, fast, shapes):
    def wrong(*args):
        result = fast(*args)
        flat = result.reshape(-1).clone()
        flat[-1] *= 1.25
        return flat.reshape(result.shape)

    assert len(_failed(ground_truth, wrong, shapes, torch.float32, (1, 1, 1))) == 3
