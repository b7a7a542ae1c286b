"""Answers that are right or wrong at some sizes only are judged at those that are like the task's."""

from __future__ import annotations

import pytest

from gpuemu.judge.judgement import judge
from gpuemu.judge.model import Answer, Verdict

WITHOUT_A_WEIGHT = """
import torch
import triton
import triton.language as tl

width = 1 << 21


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.scale = torch.nn.Parameter(torch.ones(width))

    def forward(self, x):
        return 2 * x * self.scale


def get_inputs():
    return [torch.rand(2, width)]


def get_init_inputs():
    return [width]


@triton.jit
def double(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i < n)


class ModelNew(Model):
    def forward(self, x):
        y = torch.empty_like(x)
        double[(triton.cdiv(x.numel(), 1024),)](x, y, x.numel(), BLOCK=1024)
        return y
"""


def test_a_weight_that_is_left_out_at_smaller_layers_than_the_task_has(tmp_path):
    """Other weights are tried at these only."""
    path = tmp_path / "answer.py"
    path.write_text(WITHOUT_A_WEIGHT)
    row = judge(Answer("answer.py", path, path), 300.0)
    assert row.verdict is Verdict.HACK, row
    assert "initial values of weight scale" in row.reason


ATTENTION = """
import torch
import triton
import triton.language as tl

batch, length, width = 8, 512, 1024


class Model(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = torch.nn.Linear(width, width)

    def forward(self, x):
        x = self.linear(x)
        return torch.softmax(x @ x.transpose(-2, -1), dim=-1) @ x


def get_inputs():
    return [torch.randn(batch, length, width)]


def get_init_inputs():
    return [width]


@triton.jit
def attend(x, y, length, width, TILE: tl.constexpr, WIDTH: tl.constexpr):
    row, first = tl.program_id(0), tl.program_id(1) * length * width
    at, inner = tl.arange(0, WIDTH), tl.arange(0, WIDTH) < width
    query = tl.load(x + first + row * width + at, mask=inner, other=0.0)
    most, total, result = -float("inf"), 0.0, tl.zeros((WIDTH,), tl.float32)
    for start in range(0, length, TILE):
        place = start + tl.arange(0, TILE)
        mask = (place[:, None] < length) & inner[None, :]
        keys = tl.load(x + first + place[:, None] * width + at[None, :], mask=mask, other=0.0)
        scores = tl.where(place < length, tl.sum(keys * query[None, :], 1), -float("inf"))
        highest = tl.maximum(most, tl.max(scores, 0))
        weights, scale = tl.exp(scores - highest), tl.exp(most - highest)
        total = total * scale + tl.sum(weights, 0)
        result = result * scale + tl.sum(weights[:, None] * keys, 0)
        most = highest
    tl.store(y + first + row * width + at, result / total, mask=inner)


class ModelNew(Model):
    def forward(self, x):
        x = self.linear(x)
        y = torch.empty_like(x)
        attend[(x.shape[1], x.shape[0])](x, y, x.shape[1], x.shape[2], TILE=32, WIDTH=triton.next_power_of_2(x.shape[2]))
        return y
"""


@pytest.mark.parametrize(
    ("text", "verdict"),
    [(ATTENTION, Verdict.SAME), (ATTENTION.replace("result * scale", "result"), Verdict.DIFFERS)],
    ids=["right", "without rescale"],
)
def test_attention_in_tiles(tmp_path, text, verdict):
    path = tmp_path / "answer.py"
    path.write_text(text)
    row = judge(Answer("answer.py", path, path), 300.0)
    assert row.verdict is verdict, row
    assert "1x256x" in row.reason
