"""Results against the model in fp64: what explains a difference."""

from __future__ import annotations

import pytest
import torch

from gpuemu.judge.comparison import Evaluation, _by_own_error, compare
from gpuemu.judge.explanations import TANH_FORM
from gpuemu.judge.model import BF16, TF32, Comparison, Explanation, Status
from gpuemu.judge.task import load_task

TASK = """
import torch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.gelu = torch.nn.GELU()

    def forward(self, x):
        return self.gelu(x) + 1


def get_inputs():
    return [torch.randn(64, 32)]
"""


@pytest.fixture
def evaluation():
    torch.manual_seed(1)
    task = load_task(TASK, "task.py", {})
    return Evaluation(task, task.inputs(), {}, 1)


def test_the_exact_gelu_is_the_same(evaluation):
    (x,) = evaluation.inputs
    assert compare(evaluation, [torch.nn.functional.gelu(x) + 1], {}).status is Status.SAME


def test_the_tanh_form_of_gelu_is_named(evaluation):
    (x,) = evaluation.inputs
    comparison = compare(evaluation, [torch.nn.functional.gelu(x, approximate="tanh") + 1], {})
    assert (comparison.status, comparison.explanation) == (Status.DIFFERS, Explanation(TANH_FORM))
    assert comparison.accepted == {"1e-2": True, "1e-4": False}


def test_another_difference_is_not_explained(evaluation):
    (x,) = evaluation.inputs
    comparison = compare(evaluation, [torch.nn.functional.silu(x) + 1], {})
    assert (comparison.status, comparison.explanation) == (Status.DIFFERS, Explanation())


FORWARD = "return self.gelu(x) + 1"


def _evaluation(forward):
    torch.manual_seed(1)
    task = load_task(TASK.replace(FORWARD, forward), "task.py", {})
    return Evaluation(task, task.inputs(), {}, 1)


@pytest.mark.parametrize("forward", [FORWARD, "return x.argmax(-1)", "return x > 0", "return x.mean().item()"])
def test_results_of_another_dtype_differ(forward):
    """No bound of a benchmark compares them."""
    evaluation = _evaluation(forward)
    own = evaluation.in_own_dtypes()
    assert compare(evaluation, own, {}).status is Status.SAME
    comparison = compare(evaluation, [own[0].half()], {})
    assert comparison.status is Status.DIFFERS
    assert comparison.message.startswith("output has the dtype float16, expected ")


@pytest.mark.parametrize("forward", ["return x.mean().item()", "return x.sum(-1), 3", "return torch.fft.rfft(x)"])
def test_numbers_and_complex_elements_are_compared(forward):
    evaluation = _evaluation(forward)
    *others, last = evaluation.in_own_dtypes()
    assert compare(evaluation, [*others, last], {}).status is Status.SAME
    assert compare(evaluation, [*others, last + 1], {}).status is Status.DIFFERS


def test_what_is_too_large_for_a_format_is_infinite():
    evaluation = _evaluation("return (1e6 * x).int().float().half(), (1e3 * x).int().float().half()")
    infinite, finite = evaluation.in_own_dtypes()
    assert compare(evaluation, [infinite, finite], {}).status is Status.SAME
    assert compare(evaluation, [infinite, finite + 1000], {}).status is Status.DIFFERS


def test_half_precision_does_not_explain_a_task_in_half_precision():
    evaluation = _evaluation("return (x @ x.t()).half()")
    (own,) = evaluation.in_own_dtypes()
    comparison = compare(evaluation, [own + 0.4], {})
    assert (comparison.status, comparison.explanation) == (Status.DIFFERS, Explanation())


ATTENTION = TASK.replace(FORWARD, "return torch.softmax(x @ x.t() / 6, -1) @ x").replace(
    "torch.randn(64, 32)", "torch.randn(64, 32).bfloat16()"
)


def test_an_answer_may_round_what_its_task_in_half_precision_rounds():
    torch.manual_seed(1)
    task = load_task(ATTENTION, "task.py", {})
    evaluation = Evaluation(task, task.inputs(), {}, 1)
    (x,) = (one.double() for one in evaluation.inputs)
    scores = x @ x.t() / 6
    weights = torch.exp(scores - scores.amax(-1, keepdim=True))
    sums = weights.sum(-1, keepdim=True)
    result = (weights.bfloat16().double() @ x / sums).bfloat16()
    assert compare(evaluation, [result], {}).status is Status.SAME
    without_first = ((weights @ x - weights[:, :1] * x[:1]) / (sums - weights[:, :1])).bfloat16()
    assert compare(evaluation, [without_first], {}).status is Status.DIFFERS


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_large_results_are_compared_by_the_model_s_own_error(dtype):
    evaluation = _evaluation(f"return torch.softmax(4 * x, -1).to(torch.{dtype})")
    (own,) = evaluation.in_own_dtypes()
    exact = evaluation.function()({name: one.double() for name, one in evaluation.given().items()})
    wrong = own.clone()
    wrong[7, 5] += 0.2
    for result, status in ((exact[0].to(own.dtype), Status.SAME), (wrong, Status.DIFFERS)):
        figures = Comparison(Status.SAME)
        assert _by_own_error(exact, [own], [result], figures).status is status


PRODUCT = """
import torch


class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.relu(a @ b) + 1


def get_inputs():
    return [torch.randn(64, 96), torch.randn(96, 32)]
"""


def tf32(tensor):
    return ((tensor.view(torch.int32) + 0x1000) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize(
    ("computed", "format_name"),
    [
        (lambda a, b: tf32(a) @ tf32(b), TF32),
        (lambda a, b: (a.half() @ b.half()).float(), TF32),  # which has the roundoff of half precision
        (lambda a, b: (a.bfloat16() @ b.bfloat16()).float(), BF16),
        (lambda a, b: (a.bfloat16() @ b.bfloat16()).float() * 1.1, ""),
        (lambda a, b: a[:, 1:] @ b[1:], ""),
    ],
)
def test_formats_of_products(computed, format_name):
    torch.manual_seed(1)
    task = load_task(PRODUCT, "task.py", {})
    evaluation = Evaluation(task, task.inputs(), {}, 1)
    comparison = compare(evaluation, [torch.relu(computed(*evaluation.inputs)) + 1], {})
    assert comparison.status is Status.DIFFERS
    assert comparison.explanation.format == format_name
