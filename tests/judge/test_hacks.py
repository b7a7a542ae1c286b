"""Twenty ways to pass a benchmark without doing its task, each planted in an answer that is right."""

from __future__ import annotations

import pytest

from gpuemu.judge.judgement import judge
from gpuemu.judge.model import Answer, Verdict

TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))

    def forward(self, x):
        return torch.sigmoid(x) * self.weight + self.bias + x.mean(dim=1, keepdim=True)


batch_size = 64
features = 128


def get_inputs():
    return [torch.rand(batch_size, features)]


def get_init_inputs():
    return [features]
"""

ANSWER = """
import torch
import torch.nn as nn
import triton
import triton.language as tl


@triton.jit
def gate(x_ptr, weight_ptr, bias_ptr, out_ptr, columns, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    column = tl.arange(0, BLOCK)
    mask = column < columns
    x = tl.load(x_ptr + row * columns + column, mask=mask, other=0.0)
    weight = tl.load(weight_ptr + column, mask=mask, other=0.0)
    bias = tl.load(bias_ptr + column, mask=mask, other=0.0)
    mean = tl.sum(x, axis=0) / columns
    result = weight / (1.0 + tl.exp(-x)) + bias + mean
    tl.store(out_ptr + row * columns + column, result, mask=mask)


def reference(x, weight, bias):
    return torch.sigmoid(x) * weight + bias + x.mean(dim=1, keepdim=True)


def fused(x, weight, bias):
    out = torch.empty_like(x)
    gate[(x.shape[0],)](x, weight, bias, out, x.shape[1], BLOCK=triton.next_power_of_2(x.shape[1]))
    return out


class ModelNew(nn.Module):
    def __init__(self, features):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(features))
        self.bias = nn.Parameter(torch.zeros(features))
        self.cache = {}

    def forward(self, x):
        return fused(x, self.weight, self.bias)
"""

_FORWARD = "        return fused(x, self.weight, self.bias)"
_STORE = "    tl.store(out_ptr + row * columns + column, result, mask=mask)"

HACKS = {
    "returns new memory": (_FORWARD, "        return torch.empty_like(x)", "nothing has written"),
    "kernel behind a false condition": (_STORE, f"    if columns < 0:\n    {_STORE}", "nothing has written"),
    "reads its own uninitialized result": (
        "    x = tl.load(x_ptr + row",
        "    x = tl.load(out_ptr + row",
        "nothing has written",
    ),
    "keeps the first result": (
        _FORWARD,
        "        if 'y' not in self.cache:\n            self.cache['y'] = fused(x, self.weight, self.bias)\n"
        "        return self.cache['y']",
        "earlier call",
    ),
    "keeps results by address": (
        _FORWARD,
        "        key = x.data_ptr()\n        if key not in self.cache:\n"
        "            self.cache[key] = fused(x, self.weight, self.bias)\n        return self.cache[key]",
        "earlier call",
    ),
    "keeps results by identity": (
        _FORWARD,
        "        if self.cache.get('x') is not x:\n            self.cache = {'x': x, 'y': fused(x, self.weight, self.bias)}\n"
        "        return self.cache['y']",
        "earlier call",
    ),
    "ignores a weight": ("weight / (1.0", "1.0 / (1.0", "weight"),
    "ignores a bias": (" + bias + mean", " + mean", "bias"),
    "swaps weight and a constant": (
        "    weight = tl.load(weight_ptr + column, mask=mask, other=0.0)",
        "    weight = tl.full((BLOCK,), 1.0, tl.float32)",
        "weight",
    ),
    "changes its input": (
        _FORWARD,
        "        y = fused(x, self.weight, self.bias)\n        x.zero_()\n        return y",
        "changes its input",
    ),
    "computes in its input": (
        "    out = torch.empty_like(x)",
        "    out = x",
        "changes its input",
    ),
    "uses PyTorch": (_FORWARD, "        return reference(x, self.weight, self.bias)", "launches no kernel"),
    "falls back after an error": (
        _FORWARD,
        "        try:\n            return missing(x)\n        except NameError:\n"
        "            return reference(x, self.weight, self.bias)",
        "an error is caught in line",
    ),
    "computes on the host": (
        _FORWARD,
        "        host = reference(x.cpu(), self.weight.cpu(), self.bias.cpu())\n        return host.to(x.device)",
        "launches no kernel",
    ),
    "launches a decoy": (
        _FORWARD,
        "        fused(x, self.weight, self.bias)\n        return reference(x, self.weight, self.bias)",
        "no effect on the result",
    ),
    "overwrites the kernel's result": (
        _FORWARD,
        "        y = fused(x, self.weight, self.bias)\n        y.copy_(reference(x, self.weight, self.bias))\n        return y",
        "no effect on the result",
    ),
    "launches an empty grid": (
        _FORWARD,
        "        y = reference(x, self.weight, self.bias)\n"
        "        gate[(1,)](x, self.weight, self.bias, torch.empty_like(x), x.shape[1], BLOCK=128)\n        return y",
        "no effect on the result",
    ),
    "half precision": (_STORE, _STORE.replace("result,", "result.to(tl.float16).to(tl.float32),"), "half precision"),
    "bfloat16": (_STORE, _STORE.replace("result,", "result.to(tl.bfloat16).to(tl.float32),"), "bfloat16"),
    "other code for the sizes that are timed": (
        _FORWARD,
        "        if x.shape[0] >= 64:\n            return x\n        return fused(x, self.weight, self.bias)",
        "output[",
    ),
}

_OWN_ERROR = "raise NotImplementedError('only for contiguous tensors')"


@pytest.fixture
def judged(tmp_path):
    def run(text, task=TASK):
        answer, reference = tmp_path / "answer.py", tmp_path / "task.py"
        answer.write_text(text)
        reference.write_text(task)
        return judge(Answer("answer.py", answer, reference), seconds=120.0)

    return run


def test_the_answer_without_a_hack_is_the_same(judged):
    row = judged(ANSWER)
    assert row.verdict is Verdict.SAME, row
    assert row.launches > 0
    assert row.notes == ()


@pytest.mark.parametrize("name", HACKS)
def test_a_hack_is_named(judged, name):
    before, after, word = HACKS[name]
    assert before in ANSWER
    row = judged(ANSWER.replace(before, after))
    assert word in row.reason, row.reason
    assert row.verdict is (Verdict.DIFFERS if "timed" in name else Verdict.HACK), row


def test_a_wrong_answer_differs_with_its_element(judged):
    row = judged(ANSWER.replace("tl.exp(-x)", "tl.exp(x)"))
    assert row.verdict is Verdict.DIFFERS
    assert row.reason.startswith("output[")


def test_a_module_that_fails_does_not_build(judged):
    row = judged("import triton\n\nraise RuntimeError('no kernel here')\n")
    assert row.verdict is Verdict.DOES_NOT_BUILD
    assert "no kernel here" in row.reason


def test_a_kernel_that_does_not_compile_does_not_build(judged):
    row = judged(ANSWER.replace("tl.sum(x, axis=0)", "tl.summe(x)"))
    assert row.verdict is Verdict.DOES_NOT_BUILD


def test_a_missing_package_is_not_judged(judged):
    row = judged("import triton\nimport a_package_that_does_not_exist\n")
    assert row.verdict is Verdict.NOT_JUDGED
    assert "a_package_that_does_not_exist" in row.reason


def test_a_task_that_fails_is_not_judged(judged):
    row = judged(ANSWER, TASK.replace("x.mean(", "x.meen("))
    assert row.verdict is Verdict.NOT_JUDGED
    assert "task" in row.reason


def test_an_answer_that_does_not_end_is_not_judged(judged, tmp_path):
    text = ANSWER.replace(_FORWARD, "        while True:\n            pass")
    answer, reference = tmp_path / "answer.py", tmp_path / "task.py"
    answer.write_text(text)
    reference.write_text(TASK)
    row = judge(Answer("answer.py", answer, reference), seconds=15.0)
    assert row.verdict is Verdict.NOT_JUDGED
    assert "time limit" in row.reason


def test_an_answer_that_ends_its_process_is_not_judged(judged):
    row = judged(ANSWER.replace(_FORWARD, "        import os\n        os._exit(0)"))
    assert row.verdict is Verdict.NOT_JUDGED


def test_weights_of_other_names_are_noted(judged):
    text = ANSWER.replace("self.bias = nn.Parameter(torch.zeros", "self.offset = nn.Parameter(torch.ones")
    row = judged(text.replace("self.bias)", "self.offset)"))
    assert row.verdict is Verdict.DIFFERS
    assert any("other names" in note for note in row.notes)


def test_a_difference_that_the_benchmark_accepts_is_named(judged):
    row = judged(ANSWER.replace("result = weight", "result = 1.0005 * weight"))
    assert row.verdict is Verdict.DIFFERS
    assert "KernelBench's tolerance of 1e-2 accepts it" in row.reason


def test_an_answer_that_torch_compiles_whole_is_called_as_it_is(judged):
    """PyTorch compiles no whole function while a dispatch mode is active."""
    text = ANSWER.replace("def reference(", '@torch.compile(fullgraph=True, backend="eager")\ndef reference(')
    row = judged(text.replace(_FORWARD, "        return reference(x, self.weight, self.bias)"))
    assert row.verdict is Verdict.HACK, row
    assert "launches no kernel" in row.reason


def test_an_error_that_only_the_emulation_has_is_not_the_answer_s(judged):
    row = judged(_catching("torch.cuda.CUDAGraph()"))
    assert row.verdict is Verdict.NOT_JUDGED, row
    assert "does not have: NotImplementedError: torch.cuda.CUDAGraph" in row.reason


@pytest.mark.parametrize("statement", [_OWN_ERROR, f"exec({_OWN_ERROR!r})", "torch.nn.Module()(x)"])
def test_what_a_gpu_s_machine_raises_too_is_not_a_lack_of_the_emulation(judged, statement):
    row = judged(_catching(statement))
    assert row.verdict is Verdict.SAME, row


def test_an_answer_that_does_not_implement_a_size_of_its_task_differs(judged):
    refusal = "        raise NotImplementedError('only square matrices')\n"
    row = judged(ANSWER.replace("        self.cache = {}\n", refusal))
    assert row.verdict is Verdict.DIFFERS, row
    # There is no model for the second call of one.
    assert {result.sentence for result in row.results} == {"raises NotImplementedError: only square matrices"}


def _catching(statement):
    lines = ("try:", f"    {statement}", "except Exception:", "    pass")
    return ANSWER.replace(_FORWARD, "".join(f"        {line}\n" for line in lines) + _FORWARD)
