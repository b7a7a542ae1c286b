"""Whose fault an exception is, what a failed build says, and what a row says of other sizes."""

from __future__ import annotations

import runpy
from dataclasses import replace
from pathlib import Path

import pytest
import torch
import triton
import triton.language as tl
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, CompilationError

from gpuemu.judge import judgement, verdicts
from gpuemu.judge.messages import compiler_error, is_missing_here, last_line
from gpuemu.judge.model import Answer, Call, Case, CaseResult, Comparison, Row, Status, Values, Verdict
from gpuemu.judge.processes import AnswerRun
from gpuemu.judge.raised import Raised


@pytest.mark.parametrize(
    ("line", "error", "missing"),
    [
        ("cuda.cu:3:10: fatal error: cufft.h: No such file or directory", "", True),
        ("/x/curand_kernel.h:2:2: error: #error the package of its own: pip install x", "/x/", True),
        ("cuda.cu:3:10: fatal error: cutlass/gemm.h: No such file or directory", "", False),
        ('/tmp/y/cuda.cu(7): error: class "uint3" has no member "w"', "/tmp/y/", False),
    ],
)
def test_the_first_error_of_a_compiler(line, error, missing):
    text = f"Error building extension 'x': [1/3] nvcc -c cuda.cu\nFAILED: [code=1]\n{line}\n  at 1\n2 errors\n"
    assert compiler_error(text) == line.removeprefix(error)
    assert is_missing_here(compiler_error(text)) is missing


def test_a_text_without_an_error():
    assert compiler_error("CUDA_HOME is not set") == ""
    assert not is_missing_here("")


@pytest.mark.parametrize(
    ("error", "building", "builds"),
    [("RuntimeError", True, True), ("CompilationError", False, True), ("RuntimeError", False, False)],
)
def test_extensions_that_a_constructor_builds(error, building, builds):
    assert Raised(error, "x", building).is_build_error is builds


@pytest.mark.parametrize(
    ("text", "not_emulated"),
    [
        ("torch.linalg.det(torch.eye(2).half())", True),
        ('torch.linalg.det(torch.eye(2).half())  # AT_DISPATCH_FLOATING_TYPES(x.scalar_type(), "lu_cpu", [&] {', False),
        ("torch.nn.Module()(1)", False),
        ("raise NotImplementedError", False),
        ("exec('raise NotImplementedError')", False),
        ("raise torch.OutOfMemoryError", False),
        ("1 / 0", False),
    ],
)
def test_what_the_emulated_device_lacks(tmp_path, text, not_emulated):
    path = tmp_path / "answer.py"
    path.write_text(text)
    with pytest.raises((RuntimeError, ArithmeticError)) as caught:
        runpy.run_path(str(path), {"torch": torch})
    assert Raised.of(caught.value, str(path)).is_not_emulated is not_emulated


@triton.jit
def with_block_pointers(x):
    tl.load(tl.make_block_ptr(x, (8,), (1,), (0,), (8,), (0,)))


@triton.jit
def with_no_function(x):
    tl.load(tl.make_pointer(x))


@triton.jit
def with_a_call(x):
    with_no_function(x)


@pytest.mark.parametrize(
    ("kernel", "missing"), [(with_block_pointers, True), (with_no_function, False), (with_a_call, False)]
)
def test_what_triton_has_no_longer_is_missing_here(kernel, missing):
    """Kernels with block pointers ran with the versions of Triton before 3.9."""
    with pytest.raises(CompilationError) as caught:
        triton.compile(ASTSource(kernel, {"x": "*fp32"}), target=GPUTarget("cuda", 80, 32))
    raised = Raised.of(caught.value, __file__)
    assert raised.is_build_error
    assert raised.is_missing_here is missing
    assert missing or "make_pointer" in last_line(raised.message)  # which the kernel's last line does not have


def test_memory_of_the_answer_s_process_is_called_an_input_or_weight():
    place = {"start": {"line": 15, "character": 0}}
    message = "read of 4 bytes at byte 8 of allocation 2 at answer_process.py:161 is out of bounds"
    finding = {"rule": "memory/out-of-bounds", "path": "/x/answer.py", "range": place, "message": message}
    expected = "read of 4 bytes at byte 8 of allocation 2 (an input or weight) is out of bounds"
    assert verdicts.sentence(finding) == f"memory/out-of-bounds at answer.py:16: {expected}"


def test_what_may_be_written_for_the_task_s_own_layers_does_not_differ(tmp_path):
    path = tmp_path / "answer.py"
    path.write_text("HEAD = 96\n")
    case = Case("small-task", "small", Values.TASK, "", False, True, True, ((2, 384),), False, "", 1, ())
    row = Row(Answer("a", path, path), Verdict.NOT_JUDGED, "")
    refused = CaseResult(case, Call("small-task", Raised("RuntimeError", "unsupported head dim 48")), None)
    failed = CaseResult(case, Call("small-task", Raised("TypeError", "forward() takes 1 argument")), None)
    assert verdicts._wrong(row, refused).verdict is Verdict.NOT_JUDGED
    assert verdicts._wrong(row, failed).verdict is Verdict.DIFFERS
    own = replace(case, name="larger-task", label="larger", layers=False)
    assert verdicts._wrong(row, replace(refused, case=own)).verdict is Verdict.DIFFERS
    assert judgement._nearer([case, own], []) == {"at smaller layers than the task's": [own]}


def test_what_only_larger_sizes_show_is_not_a_matter_of_tiles(tmp_path):
    small = Case("small-task", "small", Values.TASK, "", False, True, False, ((2, 32),), False, "", 1, ())
    larger = replace(small, name="larger-task", label="larger", shapes=((2, 64),))
    right, wrong = Comparison(Status.SAME), Comparison(Status.DIFFERS, "output[0] = 1, expected 2")
    answer = Answer("a", tmp_path / "a.py", tmp_path / "t.py")
    for comparisons, expected in [((right, wrong), True), ((wrong, wrong), False)]:
        results = tuple(
            CaseResult(case, Call(case.name), one) for case, one in zip((small, larger), comparisons, strict=True)
        )
        row = Row(answer, Verdict.DIFFERS, wrong.message, results)
        assert judgement._is_right_when_small(row, [small, larger], tmp_path, 1.0) is expected


@pytest.mark.parametrize(("problem", "verdict"), [(None, Verdict.HACK), ("stopped", Verdict.NOT_JUDGED)])
def test_nothing_is_known_of_launches_of_a_run_that_was_stopped(tmp_path, problem, verdict):
    path = tmp_path / "a.py"
    path.write_text("")
    case = Case("small-task", "small", Values.TASK, "", False, True, False, ((2, 32),), False, "", 1, ())
    run = AnswerRun(True, None, {}, (), 0, frozenset(), {}, None, None, (), problem, "", False, None)
    result = CaseResult(case, Call(case.name), Comparison(Status.SAME))
    assert verdicts.verdict_of(Answer("a", path, path), (result,), run).verdict is verdict


WHERE = "at sizes that the tiles of kernels do not divide"


@pytest.mark.parametrize(
    ("rule", "verdict"), [("memory/global-race", Verdict.UNSAFE), ("memory/out-of-bounds", Verdict.DIFFERS)]
)
def test_what_only_sizes_that_tiles_do_not_divide_show(rule, verdict):
    """Tiles that do not divide a size lead out of bounds; a race has other reasons."""
    answer = Answer("a", Path("a.py"), Path("t.py"))
    small = Row(answer, Verdict.UNSAFE, "at a.py:3: y[0]", findings=({"rule": rule, "severity": "error"},))
    aligned = Row(answer, Verdict.DIFFERS, "y[0] = 1, expected 2")
    row = judgement._confirmed(small, aligned, WHERE)
    assert row.verdict is verdict
    assert {row.reason, *row.notes} >= {aligned.reason}
    assert any(small.reason in text for text in (row.reason, *row.notes))
