"""The normal form has the value of the expression it was made from, and bounds that contain it."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu_lsp.engine.project.expressions import ExpressionError, parse
from gpuemu_lsp.engine.project.expressions import evaluate as evaluate_expression
from gpuemu_lsp.engine.symbolic.size import (
    ONE,
    ZERO,
    Size,
    TooComplexError,
    add,
    ceil_div,
    divide,
    evaluate,
    extreme,
    floor_divide,
    indicator,
    modulo,
    multiply,
    next_power_of_two,
    number,
    remainder,
    substitute,
    symbol,
)


def _truncated(left: int, right: int) -> int:
    return abs(left) // abs(right) * (1 if (left < 0) == (right < 0) else -1)


NAMES = ("a", "b", "n")
BINARY = {
    "+": (add, lambda x, y: x + y),
    "-": (lambda x, y: add(x, y, -1), lambda x, y: x - y),
    "*": (multiply, lambda x, y: x * y),
    "//": (floor_divide, lambda x, y: x // y),
    "%": (modulo, lambda x, y: x % y),
    "C /": (divide, _truncated),
    "C %": (remainder, lambda x, y: x - y * _truncated(x, y)),
    "ceil_div": (ceil_div, lambda x, y: -(-x // y)),
    "min": (lambda x, y: extreme("min", x, y), min),
    "max": (lambda x, y: extreme("max", x, y), max),
    "==": (lambda x, y: indicator("==", x, y), lambda x, y: int(x == y)),
    "!=": (lambda x, y: indicator("!=", x, y), lambda x, y: int(x != y)),
    "<": (lambda x, y: indicator("<", x, y), lambda x, y: int(x < y)),
    ">=": (lambda x, y: indicator(">=", x, y), lambda x, y: int(x >= y)),
}
LEAVES = st.one_of(st.sampled_from(NAMES), st.integers(-4, 9), st.sampled_from((16, 32, 255, 256)))
TREES = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from(sorted(BINARY)), inner, inner), st.tuples(st.just("next_pow2"), inner)
    ),
    max_leaves=8,
)
LEAST = st.sampled_from((None, 0, 1))


def built(tree: object, symbols: dict[str, Size]) -> Size:
    if isinstance(tree, str):
        return symbols[tree]
    if isinstance(tree, int):
        return number(tree)
    operator, *operands = tree
    sizes = [built(one, symbols) for one in operands]
    return next_power_of_two(*sizes) if operator == "next_pow2" else BINARY[operator][0](*sizes)


def value(tree: object, env: dict[str, int]) -> int:
    if isinstance(tree, str):
        return env[tree]
    if isinstance(tree, int):
        return tree
    operator, *operands = tree
    values = [value(one, env) for one in operands]
    return 1 << max(values[0] - 1, 0).bit_length() if operator == "next_pow2" else BINARY[operator][1](*values)


@settings(max_examples=250, deadline=None)
@given(TREES, st.tuples(LEAST, LEAST, LEAST), st.data())
def test_the_normal_form_has_the_value_of_the_tree_and_bounds_that_contain_it(tree, minima, data):
    symbols = {name: symbol(name, low) for name, low in zip(NAMES, minima, strict=True)}
    try:
        size = built(tree, symbols)
    except TooComplexError:
        return
    for _ in range(4):
        env = {
            name: data.draw(st.one_of(st.integers(-9 if low is None else low, 40), st.sampled_from((255, 256, 4096))))
            for name, low in zip(NAMES, minima, strict=True)
        }
        try:
            expected = value(tree, env)
        except ZeroDivisionError:
            continue
        assert evaluate(size, env) == expected, f"{tree} is {size}"
        assert expected in size.bounds, f"{tree} is {size} in {size.bounds}"
        assert substitute(size, {name: number(one) for name, one in env.items()}) == number(expected)


@settings(max_examples=150, deadline=None)
@given(TREES, st.data())
def test_the_text_is_an_expression_of_gpuemu_toml_with_the_same_value(tree, data):
    """For sizes whose dividends are not negative; others C rounds in another way than the grammar can say."""
    symbols = {name: symbol(name, 1) for name in NAMES}
    try:
        size = built(tree, symbols)
    except TooComplexError:
        return
    truncates = "truncates=True" in repr(size)
    env = {name: data.draw(st.integers(1, 300)) for name in NAMES}
    try:
        expected = value(tree, env)
        written = evaluate_expression(parse(str(size)), env)
    except (ZeroDivisionError, ExpressionError):
        return
    assert truncates or written == expected, f"{tree} is {size}"


N, B = symbol("n", 1), symbol("b", 1)


@pytest.mark.parametrize("divisor", [number(256), number(2), number(7), B], ids=str)
@pytest.mark.parametrize("dividend", [N, symbol("u"), number(1000), N * symbol("m", 1), N - symbol("m", 1)], ids=str)
def test_a_quotient_that_is_rounded_up_has_one_form_however_it_is_written(dividend, divisor):
    rest = modulo(dividend, divisor)
    forms = [
        ceil_div(dividend, divisor),
        floor_divide(dividend + divisor - ONE, divisor),
        floor_divide(dividend - ONE, divisor) + ONE,
        -floor_divide(-dividend, divisor),
        ZERO - floor_divide(ZERO - dividend, divisor),
        floor_divide(dividend, divisor) + indicator("!=", rest, ZERO),
        floor_divide(dividend, divisor) + indicator(">", rest, ZERO),
        floor_divide(dividend, divisor) + ONE - indicator("==", rest, ZERO),
    ]
    assert set(forms) == {forms[0]}
    assert dividend.constant or "ceil_div" in str(forms[0])


def test_a_size_that_is_rounded_up_to_a_multiple_has_one_form():
    rounded = ceil_div(N, B) * B
    assert floor_divide(N + B - ONE, B) * B == rounded
    assert N + modulo(-N, B) == rounded
    assert N + modulo(B - modulo(N, B), B) == rounded


def test_division_of_c_is_that_of_python_where_no_side_is_negative():
    assert divide(N + number(255), number(256)) == ceil_div(N, number(256))
    assert divide(N - ONE, B) + ONE == ceil_div(N, B)
    unbounded = symbol("u")
    assert divide(unbounded, number(4)) != floor_divide(unbounded, number(4))
    assert evaluate(divide(unbounded, number(4)), {"u": -7}) == -1
    assert evaluate(floor_divide(unbounded, number(4)), {"u": -7}) == -2
    assert evaluate(remainder(unbounded, number(4)), {"u": -7}) == -3
    # A value that turns out to be positive makes both the same.
    assert substitute(divide(unbounded, number(4)), {"u": N}) == floor_divide(N, number(4))


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (floor_divide(number(4) * N, number(16)), "n // 4"),
        (floor_divide(floor_divide(N, number(256)), number(4)), "n // 1024"),
        (ceil_div(ceil_div(N, number(256)), number(4)), "ceil_div(n, 1024)"),
        (modulo(number(8) * N, number(128)), "8 * (n % 16)"),
        (modulo(N * B, N), "0"),
        (floor_divide(modulo(N, number(8)), number(8)), "0"),
        (floor_divide(number(4) * N + B, number(4)), "b // 4 + n"),
        (N * N - floor_divide(N, number(2)), "n * n - (n // 2)"),
        (number(2) * floor_divide(N, B) + ONE, "2 * (n // b) + 1"),
        (extreme("min", number(1024), extreme("min", N, B)), "min(b, n, 1024)"),
        (extreme("max", N, ONE), "n"),
        (extreme("max", N - ONE, ZERO), "n - 1"),
        (extreme("max", symbol("u"), ONE), "max(u, 1)"),
        (floor_divide(B + number(999), B), "ceil_div(1000, b)"),
        (floor_divide(number(1000), B), "1000 // b"),
        (floor_divide(number(1024), next_power_of_two(N)), "1024 // next_pow2(n)"),
    ],
    ids=str,
)
def test_equal_forms_are_written_alike(size, text):
    assert str(size) == text


def test_a_division_by_zero_is_not_a_size():
    for operation in (floor_divide, modulo, divide, remainder, ceil_div):
        with pytest.raises(TooComplexError):
            operation(N, ZERO)
