"""Sizes of a task are found in its text and made smaller as its model allows."""

from __future__ import annotations

import pytest

from gpuemu.judge.literals import size_literals, with_values
from gpuemu.judge.model import Values
from gpuemu.judge.sizes import LARGE, SMALL, TaskSizes
from gpuemu.judge.task import TaskError
from gpuemu.judge.task_process import _draws_of

LINEAR = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, inputs, outputs, groups):
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        self.norm = nn.GroupNorm(groups, outputs)

    def forward(self, x):
        return self.norm(self.linear(x))


batch, inputs, outputs, groups = 4096, 512, 1024, 32


def get_inputs():
    return [torch.rand(batch, inputs)]


def get_init_inputs():
    return [inputs, outputs, groups]
"""


def test_literals_are_those_of_assignments_and_inputs():
    literals = size_literals(LINEAR)
    assert [literal.value for literal in literals] == [4096, 512, 1024, 32]


def test_other_values_replace_literals_of_one_line():
    literals = size_literals("α = 'ü'; n, m = 64, 128  # 64\n")
    assert (
        with_values("α = 'ü'; n, m = 64, 128  # 64\n", {literals[0]: 7, literals[1]: 5})
        == "α = 'ü'; n, m = 7, 5  # 64\n"
    )


def test_the_batch_is_smaller_and_the_layers_are_the_own():
    small, odd, aligned, larger = TaskSizes(LINEAR, "task.py", "Model").size_sets()
    assert small.work <= SMALL
    assert larger.work <= LARGE
    assert not small.layers
    assert small.shapes[0][1] == larger.shapes[0][1] == 512
    assert 4096 % small.shapes[0][0] == 0
    assert odd.shapes[0][0] % 2 == 1
    assert aligned.shapes[0][0] % 64 == 0
    assert aligned.work <= LARGE
    assert not odd.regular


def test_layers_are_smaller_where_the_own_do_not_fit():
    text = LINEAR.replace("4096, 512, 1024, 32", "4096, 16384, 16384, 32")
    small, *_ = TaskSizes(text, "task.py", "Model").size_sets()
    assert small.layers
    assert small.work <= SMALL
    # What divides the own sizes divides these: 32 groups.
    assert small.shapes[0][1] % 32 == 0


def test_a_small_task_is_tried_at_its_own_sizes():
    text = LINEAR.replace("4096, 512, 1024, 32", "8, 16, 32, 4")
    small, *_ = TaskSizes(text, "task.py", "Model").size_sets()
    assert small.own
    assert small.shapes == ((8, 16),)


def test_a_model_that_fails_at_its_own_sizes():
    with pytest.raises(TaskError, match="own sizes"):
        TaskSizes(LINEAR.replace("1024, 32", "1024, 33"), "task.py", "Model")


SIZES_AS_ARGUMENTS = """
import torch


class Model(torch.nn.Module):
    def __init__(self, rows, columns):
        super().__init__()

    def forward(self, x):
        return torch.softmax(x, -1)


ROWS, COLUMNS = 4096, 8192


def get_inputs():
    return [torch.rand(ROWS, COLUMNS)]


def get_init_inputs():
    return [ROWS, COLUMNS]
"""


def test_arguments_of_a_model_without_weights_are_sizes_of_inputs():
    for sizes in TaskSizes(SIZES_AS_ARGUMENTS, "task.py", "Model").size_sets():
        assert not sizes.layers


_FORMS = {
    "on the device": ("torch.rand(ROWS, COLUMNS)", 'torch.rand(ROWS, COLUMNS).cuda().to("cuda:0")'),
    "a function of its own": (
        "def get_inputs():\n    return [torch.rand(ROWS, COLUMNS)]",
        "def made(rows=4096):\n    return torch.rand(rows, 1 << 13)\n\n\ndef get_inputs():\n    return [made()]",
    ),
    "a dataclass": (
        "ROWS, COLUMNS = 4096, 8192",
        "from dataclasses import dataclass\n\n\n@dataclass\nclass S:\n    rows: int = 4096\n    columns: int = 8192\n\n\n"
        "ROWS, COLUMNS = S().rows, S().columns",
    ),
    "a number of an element": ("torch.softmax(x, -1)", "x[:, : max(int(x.max()), 1)] * x.mean().item()"),
    "selected elements": ("torch.softmax(x, -1)", "x[x > 0.5]"),
    "a reduction": ("torch.softmax(x, -1)", "x.view(-1).amax()"),
}


@pytest.mark.parametrize("form", _FORMS)
def test_sizes_of_any_form_are_made_smaller(form):
    before, after = _FORMS[form]
    assert before in SIZES_AS_ARGUMENTS
    sizes = TaskSizes(SIZES_AS_ARGUMENTS.replace(before, after), "task.py", "Model")
    assert sizes.own_shapes == ((4096, 8192),)
    small, *_ = sizes.size_sets()
    rows, columns = small.shapes[0]
    assert SMALL / 10 < rows * columns <= SMALL


def test_an_expression_of_numbers_is_one_literal():
    literals = size_literals("N, M = 2**20, 16 * 1024\nK = (1 << 4) + 3\nL = 2**1000\n")
    assert [literal.value for literal in literals] == [2**20, 16384, 19, 2, 1000]
    assert with_values("N = (1 << 4) + 3\n", {size_literals("N = (1 << 4) + 3\n")[0]: 6}) == "N = 6\n"


ATTENTION = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear = nn.Linear(width, width)

    def forward(self, x):
        x = self.linear(x)
        return torch.softmax(x @ x.transpose(-2, -1), dim=-1) @ x


batch, heads, length, width = 16, 8, 1024, 64


def get_inputs():
    return [torch.rand(batch, heads, length, width)]


def get_init_inputs():
    return [width]
"""


def test_a_sequence_is_as_long_as_two_tiles_at_the_own_layers():
    """What attention is computed for, batches and heads, is made smaller before the sequence."""
    *_, long = TaskSizes(ATTENTION, "task.py", "Model").size_sets()
    assert (long.label, long.shapes, long.layers) == ("long", ((1, 1, 512, 64),), False)
    assert long.work <= LARGE


def test_a_sequence_is_as_long_as_two_tiles_at_smaller_layers():
    text = ATTENTION.replace("16, 8, 1024, 64", "16, 8, 512, 1024")
    *_, short, long = TaskSizes(text, "task.py", "Model").size_sets()
    assert (long.shapes[0][:3], long.layers) == ((1, 1, 256), True)
    assert (short.label, short.shapes) == ("short", ((1, 1, 16, long.shapes[0][3]),))


def test_an_image_is_a_sequence_of_its_sides():
    text = ATTENTION.replace("16, 8, 1024, 64", "16, 64, 64, 128")
    text = text.replace("self.linear(x)", "self.linear(x.flatten(2).transpose(1, 2))")
    *_, long = TaskSizes(
        text.replace("batch, heads, length, width)", "batch, width, heads, length)"), "", "Model"
    ).size_sets()
    assert (long.label, long.shapes) == ("long", ((1, 128, 16, 16),))


@pytest.mark.parametrize("text", [LINEAR, ATTENTION.replace("1024", "32")], ids=["no sequence", "short"])
def test_other_tasks_have_no_long_sequence(text):
    assert "long" not in [sizes.label for sizes in TaskSizes(text, "task.py", "Model").size_sets()]


PRODUCT = """
import torch


class Model(torch.nn.Module):
    def forward(self, a, b):
        return torch.bmm(a, b)


batch, rows, inner, columns = 128, 512, 1024, 2048


def get_inputs():
    return [torch.rand(batch, rows, inner), torch.rand(batch, inner, columns)]
"""


def test_sizes_that_differ_do_so_at_the_largest_that_fit():
    """A kernel that takes one for the other is right where they are equal."""
    size_sets = {sizes.label: sizes for sizes in TaskSizes(PRODUCT, "task.py", "Model").size_sets()}
    (batch, rows, inner), (_, _, columns) = size_sets["larger"].shapes
    assert batch > 1
    assert rows < inner < columns
    (_, usual_rows, usual_inner), _ = size_sets["small"].shapes
    assert rows % usual_rows == inner % usual_inner == 0


def test_sizes_that_are_equal_stay_equal():
    """An answer that takes the height for the width is right for square images."""
    text = PRODUCT.replace("torch.bmm(a, b)", "a * 2").replace("512, 1024, 2048", "512, 512, 3")
    regular = [sizes for sizes in TaskSizes(text, "task.py", "Model").size_sets() if sizes.regular]
    assert all(sizes.shapes[0][1] == sizes.shapes[0][2] for sizes in regular)
    assert min(sizes.shapes[0][1] for sizes in regular) < 512


def test_what_a_block_passes_over_has_its_own_size_once():
    """A kernel that takes at most 1024 elements of a row is wrong for the task's."""
    text = PRODUCT.replace("torch.bmm(a, b)", "a.logsumexp(1)").replace("128, 512, 1024, 2048", "64, 2048, 512, 8")
    size_sets = {sizes.label: sizes for sizes in TaskSizes(text, "task.py", "Model").size_sets()}
    assert size_sets["larger"].shapes[0][1:] == (2048, 512)


def test_operators_whose_results_depend_on_values_have_the_shapes_for_zeros():
    """PyTorch's ``meta`` device has no ``bincount``."""
    text = PRODUCT.replace("torch.bmm(a, b)", "a + (b > 0).long().flatten().bincount(minlength=4).sum()")
    sizes = TaskSizes(text.replace("128, 512, 1024, 2048", "64, 8, 16, 32"), "task.py", "Model")
    assert all(sizes.shapes[0][1:] == (8, 16) for sizes in sizes.size_sets() if sizes.regular)


FIXED = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(4096, 4096), nn.Linear(4096, 4096))

    def forward(self, x):
        return self.layers(x)


def get_inputs():
    return [torch.rand(64, 4096)]
"""


def test_layers_that_cannot_be_smaller_are_called_as_rarely_as_a_verdict_allows():
    (small,) = TaskSizes(FIXED, "task.py", "Model").size_sets()
    assert small.shapes == ((2, 4096),)
    assert small.work > LARGE
    assert [draw.values for draw in _draws_of(small)] == [Values.TASK, Values.AGAIN, Values.WEIGHTS]


@pytest.mark.parametrize(
    ("kept", "shape"), [((8192,), (64, 8192)), ((8192, 4096), (4096, 8192)), ((8192, 4096, 16384), None)]
)
def test_sizes_that_an_answer_has_in_its_text_are_the_own(kept, shape):
    """Those that do not fit together are None."""
    text = LINEAR.replace("4096, 512, 1024, 32", "4096, 8192, 16384, 32")
    sizes = TaskSizes(text, "task.py", "Model").with_own(kept)
    assert (sizes.shapes[0] if sizes is not None else None) == shape
