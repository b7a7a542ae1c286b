"""What the text of an answer says: sizes, products, error handlers, branches that no call has taken."""

from __future__ import annotations

import pytest

from gpuemu.judge.answer_text import fallbacks, multiplies_in_tf32, named_sizes, untaken_branches
from gpuemu.judge.earlier_torch import with_scalar_types


@pytest.mark.parametrize(
    ("text", "names"), [("#define N 8192", {8192}), ("BLOCK = 128", {128}), ("x81920", set()), ("1e8192.5", set())]
)
def test_numbers_of_the_task(text, names):
    assert named_sizes(text, "ModelNew", (8192, 128)) == names


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("#define AREA 50176", {224}),  # of 224 x 224
        ("if (i < 110889)", {224, 64}),  # of 333 x 333, which follow from sizes
        ("BLOCK = 1024", set()),  # also an extent, but a usual tile
        ("x[50177]", set()),
    ],
)
def test_numbers_that_follow_from_sizes_of_the_task(text, names):
    assert named_sizes(text, "ModelNew", (224, 64), (50176, 110889, 1024)) == names


def test_numbers_that_the_model_does_not_use():
    model = "class ModelNew:\n    def forward(self, x):\n        return f(x, {})\n"
    repeated = "SIZE = 8192\n\n\ndef get_inputs():\n    return [SIZE]\n"
    assert not named_sizes(model.format("1") + repeated, "ModelNew", (8192,))
    assert named_sizes(model.format("SIZE") + repeated, "ModelNew", (8192,))


@pytest.mark.parametrize(("text", "narrow"), [("acc += tl.dot(a, b)", True), ("wmma::mma_sync", True), ("dot", False)])
def test_products_of_tensor_cores(text, narrow):
    assert multiplies_in_tf32(text) is narrow


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('AT_DISPATCH_ALL_TYPES(x.type(), "f", ([&] {', 'AT_DISPATCH_ALL_TYPES(x.scalar_type(), "f", ([&] {'),
        (
            "AT_DISPATCH_ALL_TYPES_AND(at::kHalf,\n  v[0].type(), NAME",
            "AT_DISPATCH_ALL_TYPES_AND(at::kHalf,\n  v[0].scalar_type(), NAME",
        ),
        ('AT_DISPATCH_ALL_TYPES(x.type().scalarType(), "f"', 'AT_DISPATCH_ALL_TYPES(x.type().scalarType(), "f"'),
        (
            'AT_DISPATCH_ALL_TYPES(t, "f", [&] { g(x.type(), 1); })',
            'AT_DISPATCH_ALL_TYPES(t, "f", [&] { g(x.type(), 1); })',
        ),
    ],
)
def test_dispatches_by_a_type(text, expected):
    assert with_scalar_types(text) == expected


def test_handlers_that_go_on():
    text = "try:\n    f()\nexcept ValueError:\n    raise\nexcept Exception:\n    g()\n"
    assert fallbacks(text) == (6,)


BRANCH = """
def forward(x):
    if x.shape[0] >= 1024:
        return fast(x)
    return slow(x)
"""


def test_a_branch_that_only_the_own_sizes_take():
    (branch,) = untaken_branches(BRANCH, {2, 3, 5})
    assert (branch.line, branch.condition, branch.value) == (3, "x.shape[0] >= 1024", True)
    assert branch.distinguishes({2, 64}, {4096, 64})
    assert not branch.distinguishes({2, 64}, {512, 64})
    assert not branch.distinguishes({2048}, {4096})


def test_a_branch_that_was_taken():
    assert untaken_branches(BRANCH, {2, 3, 4}) == ()


def test_an_equality_with_the_own_size():
    text = BRANCH.replace(">= 1024", "== 4096")
    (branch,) = untaken_branches(text, {2, 3, 5})
    assert branch.distinguishes({2}, {4096})
    assert not branch.distinguishes({2}, {8192})


def test_checks_that_raise_are_not_branches():
    text = "def f(x):\n    if x.dim() != 2:\n        raise ValueError\n    return x\n"
    assert untaken_branches(text, {1, 2, 4}) == ()
