"""Expressions of gpuemu.toml keep their values as sizes, and sizes as expressions."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuemu_lsp.engine.project.expressions import (
    Binary,
    Call,
    Expression,
    ExpressionError,
    Name,
    Negation,
    Number,
    parse,
)
from gpuemu_lsp.engine.project.expressions import evaluate as value_of
from gpuemu_lsp.engine.symbolic.expressions import expression_of, size_of
from gpuemu_lsp.engine.symbolic.size import TooComplexError, evaluate

NAMES = ("m", "n", "k")
NODES = st.recursive(
    st.one_of(st.integers(0, 300).map(Number), st.sampled_from(NAMES).map(Name)),
    lambda inner: st.one_of(
        inner.map(Negation),
        st.tuples(st.sampled_from(("+", "-", "*", "//", "%")), inner, inner).map(lambda three: Binary(*three)),
        st.tuples(inner, inner).map(lambda two: Call("ceil_div", two)),
        st.tuples(st.sampled_from(("min", "max")), st.lists(inner, min_size=1, max_size=3).map(tuple)).map(
            lambda two: Call(*two)
        ),
        inner.map(lambda one: Call("next_pow2", (one,))),
    ),
    max_leaves=8,
)


@settings(max_examples=200, deadline=None)
@given(NODES, st.sampled_from((None, 1)), st.data())
def test_an_expression_keeps_its_value(node, minimum, data):
    expression = Expression(node, "")
    try:
        size = size_of(expression, minimum)
    except TooComplexError:
        return
    env = {name: data.draw(st.integers(-20 if minimum is None else minimum, 300)) for name in NAMES}
    try:
        expected = value_of(expression, env)
    except ExpressionError:
        return
    assert evaluate(size, env) == expected
    assert value_of(expression_of(size), env) == expected


def test_properties_of_tensors_are_symbols():
    expression = parse("ceil_div(x.size, 256) * x.shape(0) + x.stride(1)")
    assert str(size_of(expression)) == "ceil_div(x.size, 256) * x.shape(0) + x.stride(1)"
    assert expression_of(size_of(expression)) == expression_of(size_of(expression_of(size_of(expression))))


def test_a_choice_among_expressions_is_not_a_size():
    with pytest.raises(TooComplexError):
        size_of(Expression(Call("select", (Name("n"), Number(1), Number(2))), ""))
