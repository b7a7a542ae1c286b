"""Expressions: values, names, errors with their columns, and limits."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu_lsp.engine.project.expressions import (
    MAX_VALUE,
    ExpressionError,
    attributes,
    constant,
    evaluate,
    names,
    parse,
)

ENV = {"n": 1000, "rows": 3, "_k1": 7, "x.size": 42, "x.stride(0)": 5, "x.shape(1)": 9}

VALUES = [
    (256, 256),
    (-7, -7),
    ("256", 256),
    ("0x10", 16),
    ("1_000", 1000),
    ("1 + 2 * 3", 7),
    ("(1 + 2) * 3", 9),
    ("10 - 4 - 3", 3),
    ("100 // 7 // 2", 7),
    ("7 // 2 * 2", 6),
    ("-7 // 2", -4),
    ("-7 % 3", 2),
    ("2 - -3", 5),
    ("--3", 3),
    ("-(1 + 2)", -3),
    ("min(3, 1, 2)", 1),
    ("max(n, 5000)", 5000),
    ("min(4)", 4),
    ("ceil_div(n, 256)", 4),
    ("ceil_div(1024, 256)", 4),
    ("next_pow2(n)", 1024),
    ("next_pow2(1025) + next_pow2(64) + next_pow2(1) + next_pow2(0)", 2048 + 64 + 1 + 1),
    ("ceil_div(n, 256) * rows + _k1", 19),
    ("x.size", 42),
    (" x . stride ( 0 ) * 2 ", 10),
    ("x.shape(1) % 4", 1),
    ("(n + 255) // 256", 4),
    (str(MAX_VALUE), MAX_VALUE),
]


@pytest.mark.parametrize(("text", "value"), VALUES)
def test_value(text, value):
    expression = parse(text)
    assert evaluate(expression, ENV) == value
    assert str(expression) == str(text)
    assert pickle.loads(pickle.dumps(expression)) == expression


BAD_TEXTS = [
    ("", 0, "found the end"),
    ("   ", 3, "found the end"),
    ("1 +", 3, "found the end"),
    ("(1", 2, "expected `)`"),
    ("1)", 1, "unexpected `)`"),
    ("a b", 2, "unexpected `b`"),
    ("a / b", 2, "ceil_div"),
    ("2 ** 3", 2, "no operator `**`"),
    ("a & b", 2, "unexpected character"),
    ("1.5", 1, "unexpected `.`"),
    ("é", 0, "unexpected character"),
    ("abs(1)", 0, "unknown function"),
    ("ceil_div(1)", 0, "2 arguments"),
    ("next_pow2(1, 2)", 0, "1 argument"),
    ("select(1, 2)", 0, "unknown function"),
    ("min()", 4, "unexpected"),
    ("x.foo", 2, "unknown attribute `foo`"),
    ("x.stride", 8, "expected `(`"),
    ("x.stride(n)", 9, "from 0"),
    ("x.size(0)", 6, "unexpected"),
    ("__import__('os')", 11, "unexpected character"),
    ("9" * 30, 0, "64 bits"),
    ("9" * 5000, 4096, "longer"),
    ("1__0_", 0, "not a number"),
    ("(" * 200 + "1" + ")" * 200, 100, "deeper"),
    ("-" * 200 + "1", 100, "deeper"),
    ("+".join("1" * 200), 199, "deeper"),
    (10**30, 0, "64 bits"),
]


@pytest.mark.parametrize(("text", "column", "word"), BAD_TEXTS, ids=lambda value: str(value)[:20])
def test_unreadable(text, column, word):
    with pytest.raises(ExpressionError) as caught:
        parse(text)
    assert (caught.value.column, word in str(caught.value)) == (column, True), str(caught.value)


@pytest.mark.parametrize(
    ("text", "column", "word"),
    [
        ("n // (rows - 3)", 2, "zero"),
        ("n % 0", 2, "zero"),
        ("ceil_div(1, 0)", 0, "zero"),
        ("n + m", 4, "`m` has no value"),
        ("y.size", 0, "`y.size`"),
        ("4000000000 * 4000000000", 11, "64 bits"),
        ("4000000000 * 4000000000 // 4000000000", 11, "64 bits"),
    ],
)
def test_without_value(text, column, word):
    with pytest.raises(ExpressionError) as caught:
        evaluate(parse(text), ENV)
    assert (caught.value.column, word in str(caught.value)) == (column, True), str(caught.value)


@pytest.mark.parametrize(
    ("text", "plain", "properties", "value"),
    [
        ("2 * 3", set(), set(), 6),
        ("n * min(k, n)", {"n", "k"}, set(), None),
        ("x.size + x.stride(1) + n", {"n"}, {"x.size", "x.stride(1)"}, None),
        ("1 // 0", set(), set(), None),
    ],
)
def test_names(text, plain, properties, value):
    expression = parse(text)
    assert (names(expression), attributes(expression), constant(expression)) == (plain, properties, value)


TREES = st.recursive(
    st.integers(0, 99).map(str) | st.sampled_from(["n", "rows"]),
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from(["+", "-", "*", "//", "%"]), inner).map(" ".join),
        inner.map("({})".format),
        inner.map("-{}".format),
    ),
    max_leaves=12,
)


@given(TREES)
def test_agrees_with_python(text):
    # The grammar is a subset of Python's, so Python itself is the oracle; the texts are our own.
    try:
        expected = eval(text, {"n": 1000, "rows": 3})  # noqa: S307
    except ZeroDivisionError:
        with pytest.raises(ExpressionError, match="zero"):
            evaluate(parse(text), ENV)
        return
    try:
        assert evaluate(parse(text), ENV) == expected
    except ExpressionError as error:
        assert "64 bits" in error.message


@given(st.text())
def test_any_text(text):
    try:
        expression = parse(text)
    except ExpressionError as error:
        assert 0 <= error.column <= len(text)
    else:
        assert str(expression) == text
