"""The mode of the task decides, and the other one is a note."""

from __future__ import annotations

import pytest

from gpuemu.judge.judgement import judge
from gpuemu.judge.model import Answer, Verdict

TASK = """
import torch


class Model(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(features)

    def forward(self, x):
        return self.norm(x)


def get_inputs():
    return [torch.rand(32, 16)]


def get_init_inputs():
    return [16]
"""
ANSWER = """
import torch
import triton
import triton.language as tl


@triton.jit
def normalize(x, mean, variance, y, n, columns, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    column = i % columns
    mask = i < n
    centered = tl.load(x + i, mask=mask) - tl.load(mean + column, mask=mask)
    tl.store(y + i, centered / tl.sqrt(tl.load(variance + column, mask=mask) + 1e-5), mask=mask)


class ModelNew(torch.nn.Module):
    def __init__(self, features):
        super().__init__()
        self.norm = torch.nn.BatchNorm1d(features)

    def forward(self, x):
        variance, mean = STATISTICS
        y = torch.empty_like(x)
        normalize[(triton.cdiv(x.numel(), 64),)](x, mean, variance, y, x.numel(), x.shape[1], BLOCK=64)
        return y * self.norm.weight + self.norm.bias
"""
RUNNING, BATCH = "self.norm.running_var, self.norm.running_mean", "torch.var_mean(x, dim=0, correction=0)"
OTHER = "in eval() mode, which the task does not use"


@pytest.mark.parametrize(
    ("statistics", "verdict", "note"),
    [(RUNNING, Verdict.DIFFERS, f"{OTHER}, it is the same"), (BATCH, Verdict.SAME, f"{OTHER}: output[")],
)
def test_statistics_of_a_batch(tmp_path, statistics, verdict, note):
    files = tmp_path / "answer.py", tmp_path / "task.py"
    for file, text in zip(files, (ANSWER.replace("STATISTICS", statistics), TASK), strict=True):
        file.write_text(text)
    row = judge(Answer("answer.py", *files), 120.0)
    assert row.verdict is verdict, row
    assert any(text.startswith(note) for text in row.notes), row.notes


TABLE = """
import torch
import triton
import triton.language as tl


@triton.jit
def look_up(x, table, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    index = (tl.load(x + i, mask=i < n, other=0.0) * 8).to(tl.int32)
    tl.store(y + i, tl.load(table + index, mask=i < n), mask=i < n)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        table, y = torch.arange(8, device=x.device, dtype=torch.float32), torch.empty_like(x)
        look_up[(triton.cdiv(x.numel(), 64),)](x, table, y, x.numel(), BLOCK=64)
        return y
"""
STEPS = """
import torch


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.floor(x * 8)


def get_inputs():
    return [torch.rand(32, 16)]
"""


def test_errors_at_values_that_the_task_does_not_have_are_a_note(tmp_path):
    files = tmp_path / "answer.py", tmp_path / "task.py"
    for file, text in zip(files, (TABLE, STEPS), strict=True):
        file.write_text(text)
    row = judge(Answer("answer.py", *files), 120.0)
    assert row.verdict is Verdict.SAME, row
    assert any("out-of-bounds" in note and "values that the task does not have" in note for note in row.notes), row
