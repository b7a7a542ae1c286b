"""Operators of the representation, which are those of all languages."""

from __future__ import annotations

from gpuemu_lsp.engine.hostcode.arithmetic import operate
from gpuemu_lsp.engine.hostcode.values import FloatValue
from gpuemu_lsp.engine.symbolic.size import ZERO, Size, ceil_div, divide, number, symbol

N, BLOCK = symbol("n", 1), number(256)


def negative(value: object) -> Size:
    assert isinstance(value, Size)
    result = operate("-", ZERO, value)
    assert isinstance(result, Size)
    return result


def test_a_quotient_of_a_negative_number_is_rounded_as_the_operator_says():
    assert operate("/", number(-7), number(2)) == number(-3)
    assert operate("//", number(-7), number(2)) == number(-4)


def test_the_negative_of_a_negative_number_rounded_down_is_rounded_up():
    assert negative(operate("//", negative(N), BLOCK)) == ceil_div(N, BLOCK)
    assert negative(operate("/", negative(N), BLOCK)) == divide(N, BLOCK)


def test_an_exact_quotient_keeps_its_parts_until_it_is_rounded():
    quotient = operate("real/", N, BLOCK)
    assert quotient == FloatValue(N, BLOCK)
    assert operate("real/", number(3), number(4)) == FloatValue(number(3), number(4), 0.75)
