"""What the functions that launch unregistered Triton kernels say of sizes: limits, relations, and what is uncertain."""

from __future__ import annotations

from tests.unit.plan.test_triton_launches import infer, shown


def test_a_tensor_whose_shape_is_not_read_is_uncertain():
    found = infer("""
def f(x, y):
    n = x.numel()
    k[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
""")
    assert found.uncertain == {"y"}


def test_equal_shapes_are_certain():
    found = infer("""
def f(x, y):
    assert x.shape == y.shape
    n = x.numel()
    k[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
""")
    assert not found.uncertain


def test_sizes_have_the_limits_that_assertions_state():
    found = infer(
        """
def f(x):
    M, N = x.shape
    assert N % 16 == 0 and N <= 512
    assert M > 1
    y = torch.empty_like(x)
    rows[(M,)](x, y, N, N, BLOCK=512)
""",
        "rows",
    )
    dims = found.spec.dims
    assert (dims["N"].multiple_of, dims["N"].minimum) == (16, 16)
    assert dims["M"].minimum == 2
    # M has a program for each value, and the kernel compares columns with N.
    assert found.ragged == {"M", "N"}


def test_a_number_that_no_extent_is_equal_to_is_free():
    body = """
def f(x, n):
    m = x.numel()
    y = torch.empty_like(x)
    k[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
"""
    assert infer(body).free == {"n"}
    assert not infer(body.replace("m = x.numel()", "assert x.numel() == n")).free


def test_a_branch_has_the_limits_of_its_condition():
    body = """
def f(x):
    M, N = x.shape
    y = torch.empty_like(x)
    if CONDITION:
        rows[(M,)](x, y, N, N, BLOCK=64)
    else:
        k[(1,)](x, y, M * N, BLOCK=1024)
"""
    small = infer(body.replace("CONDITION", "N <= 64"), "rows")
    assert small.spec.dims["N"].maximum == 64 and not small.free
    assert infer(body.replace("CONDITION", "N <= 64")).spec.dims["N"].minimum == 65
    assert infer(body.replace("CONDITION", "fits(M, N)"), "rows").free == {"M", "N"}
    assert infer(body.replace("CONDITION", "N <= 64 or M > 9"), "rows").free == {"M", "N"}


def test_a_parameter_of_which_sizes_are_computed_is_a_number():
    found = infer(
        """
def f(x, w):
    n = x.numel() - w
    y = torch.empty(n)
    rows[(1,)](x, y, w, n, BLOCK=64)
""",
        "rows",
    )
    assert str(found.spec.args["pitch"].value) == "w" and found.free == {"w"}


def test_numbers_of_the_function_are_extents_and_their_comparisons_hold():
    found = infer("""
def f(x, k_largest):
    m, n = x.shape
    assert k_largest <= n
    y = torch.empty((m, k_largest), dtype=x.dtype)
    rows[(m,)](x, y, k_largest, n, BLOCK=triton.next_power_of_2(n))
    """, "rows")  # fmt: skip
    assert "y out mxk_largest" in shown(found)
    assert [(sign, str(left), str(right)) for sign, left, right in found.conditions] == [("<=", "k_largest", "n")]
    assert not found.free
    assert "k_largest" in found.ragged


def test_elements_of_an_index_are_below_an_extent_that_is_a_number():
    found = infer("""
def f(index, size):
    table = torch.zeros((size, 4))
    y = torch.empty(index.shape[0])
    gather[(triton.cdiv(index.shape[0], 64),)](table, index, y, index.shape[0], BLOCK=64)
    """, "gather")  # fmt: skip
    assert str(found.spec.args["index"].range[1]) == "size"
