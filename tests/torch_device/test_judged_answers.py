"""``gpuemu judge`` on answers whose kernels are CUDA C++ in strings: examples/torch/model, and hacks of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu.judge.judgement import judge
from gpuemu.judge.model import Answer, Verdict

MODEL = Path(__file__).parents[2] / "examples" / "torch" / "model"
TASK = MODEL / "problem.py"
SECONDS = 240.0


@pytest.fixture
def judged(tmp_path):
    def run(text):
        path = tmp_path / "answer.py"
        path.write_text(text)
        return judge(Answer("answer.py", path, TASK), SECONDS)

    return run


def test_a_correct_answer_is_the_same(judged):
    row = judged((MODEL / "solution.py").read_text())
    assert row.verdict is Verdict.SAME, row
    assert row.launches > 0
    assert row.findings == ()


def test_an_answer_that_computes_in_its_input_is_a_hack(judged):
    row = judged((MODEL / "solution_wrong_stride.py").read_text())
    assert row.verdict is Verdict.HACK, row
    assert "changes its input 0" in row.reason


def test_launches_without_an_effect_are_a_hack(judged):
    call = "        return extension.center_columns(x, self.scale)"
    text = (MODEL / "solution.py").read_text()
    assert call in text
    decoy = f"{call.replace('return ', '')}\n        return (x - x.mean(0)) * self.scale"
    row = judged(text.replace(call, decoy))
    assert row.verdict is Verdict.HACK, row
    assert "no effect on the result" in row.reason


def test_new_memory_is_a_hack(judged):
    text = (MODEL / "solution.py").read_text()
    row = judged(text.replace("y[row * columns + column] = (x", "if (columns < 0) y[row * columns + column] = (x"))
    assert row.verdict is Verdict.HACK, row
    assert row.reason.startswith("returns memory that nothing has written, allocated at answer.py:")


ON_ANOTHER_STREAM = """        own, caller = torch.cuda.Stream(), torch.cuda.current_stream()
        own.wait_stream(caller)
        with torch.cuda.stream(own):
            y = extension.center_columns(x, self.scale)
        y.record_stream(caller)
        caller.wait_stream(own)
        return y"""


@pytest.mark.parametrize("waits", [True, False])
def test_work_on_another_stream_is_waited_for(judged, waits):
    call = "        return extension.center_columns(x, self.scale)"
    text = (MODEL / "solution.py").read_text().replace(call, ON_ANOTHER_STREAM)
    text = text.replace("128>>>(", "128, 0, at::cuda::getCurrentCUDAStream()>>>(")
    # As answers were written for earlier versions of PyTorch.
    text = text.replace("    center<<<", '    AT_DISPATCH_FLOATING_TYPES(x.type(), "center", [&] { center<<<')
    text = text.replace("columns, scale);\n    return", "columns, scale); });\n    return")
    assert "scale); });" in text
    text = text.replace(
        "#include <torch/extension.h>", "#include <torch/extension.h>\n#include <ATen/cuda/CUDAContext.h>"
    )
    row = judged(text if waits else text.replace("        caller.wait_stream(own)\n", ""))
    assert row.verdict is (Verdict.SAME if waits else Verdict.HACK), row
    if not waits:
        assert row.reason.startswith("returns before work on another stream has ended")


TRIANGLE = """
import torch
import triton
import triton.language as tl


class Model(torch.nn.Module):
    def forward(self, x):
        return torch.tril(x)


def get_inputs():
    return [torch.rand(64, 64)]


@triton.jit
def lower(x, y, n, BLOCK: tl.constexpr):
    row, column = tl.program_id(0), tl.arange(0, BLOCK)
    mask = (column < n) & (column <= row)
    tl.store(y + row * n + column, tl.load(x + row * n + column, mask=mask), mask=mask)


class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.empty_like(x)
        lower[(64,)](x, y, 64, BLOCK=64)
        return y
"""


@pytest.mark.parametrize("new", ["empty_like", "zeros_like"])
def test_a_result_of_which_a_part_is_not_written_is_unsafe(tmp_path, new):
    """New memory of this device is zero, and that of a GPU may be."""
    path = tmp_path / "answer.py"
    path.write_text(TRIANGLE.replace("empty_like", new))
    row = judge(Answer("answer.py", path, path), SECONDS)
    assert row.verdict is (Verdict.UNSAFE if new == "empty_like" else Verdict.SAME), row
    if new == "empty_like":
        assert row.reason.startswith("returns memory that is not all written")


def test_what_was_found_before_a_run_was_ended_decides(tmp_path):
    path = tmp_path / "answer.py"
    end = "import os\n        os.kill(int(os.environ['GPUEMU_RUNTIME'].split(':')[-1]), 9)"
    text = TRIANGLE.replace("tl.load(x + row", "tl.load(x + n * n + row").replace("return y", end)
    path.write_text(text)
    row = judge(Answer("answer.py", path, path), SECONDS)
    assert row.verdict is Verdict.UNSAFE, row
    assert row.reason.startswith("memory/out-of-bounds at answer.py:")
    assert row.notes == ("its run did not come to its end: gpuemu was ended before the program",)


OF_4_BILLION = """
import torch
import triton
import triton.language as tl

rows = 1 << 26

class Model(torch.nn.Module):
    def forward(self, x):
        return x @ (2 * torch.eye(64)).to(x)

def get_inputs():
    return [torch.rand(rows, 64)]

@triton.jit
def doubled(x, y, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + at, tl.load(x + at, mask=at < n) * 2, mask=at < n)

class ModelNew(torch.nn.Module):
    def forward(self, x):
        y = torch.zeros_like(x)
        doubled[(triton.cdiv(x.numel(), 2048),)](x, y, x.numel(), BLOCK=2048)
        return y
"""


@pytest.mark.parametrize("is_wide", [True, False])
def test_an_index_that_overflows_at_the_sizes_of_the_task_only_is_unsafe(tmp_path, is_wide):
    path = tmp_path / "answer.py"
    path.write_text(OF_4_BILLION.replace("id(0)", "id(0).to(tl.int64)") if is_wide else OF_4_BILLION)
    row = judge(Answer("answer.py", path, path), SECONDS)
    assert row.verdict is (Verdict.SAME if is_wide else Verdict.UNSAFE), row
    if not is_wide:
        (line,) = (number for number, line in enumerate(OF_4_BILLION.splitlines(), 1) if "tl.store" in line)
        assert row.reason.startswith(f"memory/index-overflow at answer.py:{line}: This index overflows 32 bits"), row
