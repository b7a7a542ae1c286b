"""Expressions: values as in C, and clear errors."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from gpuemu_lsp.engine.debug.dwarf.model import Type
from gpuemu_lsp.engine.debugger.evaluate import decided, evaluate, number_of
from gpuemu_lsp.engine.debugger.objects import Moment, Object, array_of
from gpuemu_lsp.engine.debugger.syntax import CExpressionError, parse

INT = Type("base", "int", 4, "int")
FLOAT = Type("base", "float", 4, "float")
PAIR = Type("struct", "Pair", 8, members=(("first", 0, INT), ("second", 4, FLOAT)))
MEMORY = np.arange(8, dtype=np.float32).tobytes()


def memory(address: int, size: int, tick: int) -> tuple[bytes, np.ndarray]:
    first = address - 0x1000
    data = MEMORY[first : first + size]
    return data.ljust(size, b"?"), np.full(size, len(data) == size)


def picture(address: int) -> object:
    return SimpleNamespace() if 0x1000 <= address < 0x1000 + len(MEMORY) else None


MOMENT = Moment(SimpleNamespace(accesses=SimpleNamespace(memory=memory, picture=picture)), 0, 0)  # type: ignore[arg-type]
NAMES = {
    "i": Object(INT, data=np.int32(-7).tobytes()),
    "x": Object(FLOAT, data=np.float32(2.5).tobytes()),
    "nan": Object(FLOAT, data=np.float32("nan").tobytes()),
    "pair": Object(PAIR, data=np.int32(3).tobytes() + np.float32(0.5).tobytes()),
    "grid": Object(array_of(FLOAT, (2, 4)), 0x1000),
    "p": Object(Type("pointer", "float*", 8, target=FLOAT), data=(0x1008).to_bytes(8, "little")),
    "unset": Object(INT),
    "%r1": Object(INT, data=np.int32(9).tobytes()),
}


def value(text: str) -> int | float:
    return number_of(evaluate(parse(text), NAMES.get, MOMENT), MOMENT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("1 + 2 * 3 - 4", 3),
        ("(1 + 2) * 3", 9),
        ("i / 2", -3),
        ("i % 2", -1),
        ("9 %i", 2),
        ("%r1 + 9 %pair.first", 9),
        ("7 / 2.0", 3.5),
        ("0x10 | 3 ^ 1 & 1", 0x12),
        ("1 << 4 >> 2", 4),
        ("-i == 7 && !(x < 2.5f)", 1),
        ("i > 0 ? x : x * 2", 5.0),
        ("(int)x + (unsigned char)300", 46),
        ("(unsigned int)i", 4294967289),
        ("pair.first + pair.second", 3.5),
        ("grid[1][2]", 6.0),
        ("*grid[1]", 4.0),
        ("p[1]", 3.0),
        ("*(p + 2)", 4.0),
        ("*&grid[0][3]", 3.0),
        ("p - 1 == &grid[0][1]", 1),
        ("~i", 6),
        ("'q' + '\\n' - '\\0'", 123),
        ("nan == nan", 0),
        ("unset == 1 || 1", None),
        ("1 || unset", 1),
        ("0 && unset", 0),
    ],
)
def test_values_are_those_of_c(text, expected):
    if expected is None:
        with pytest.raises(CExpressionError, match="no value"):
            value(text)
    else:
        assert value(text) == expected


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("1 +", "a value is missing at the end"),
        ("(1", "'\\)' is missing at the end"),
        ("a b", "'b' is not expected"),
        ("i @ 1", "'@' is not understood"),
        ("f(1)", "not called"),
        ("i = 1", "'=' is not understood"),
        ("nothing", "no variable 'nothing'"),
        ("1 / 0", "division by zero"),
        ("i << 80", "shift"),
        ("x & 1", "2.5 is not an integer"),
        ("pair.third", "no member 'third'"),
        ("i[0]", "has no elements"),
        ("&i", "register"),
        ("grid[2]", "index 2 is out of bounds of 2 elements"),
        ("p[100]", "outside of all arrays"),
        ("1 + " * 5000 + "1", "too long"),
        ("pair", None),
        ("(" * 150 + "1" + ")" * 150, "nested"),
        ("-" * 300 + "1", "nested"),
    ],
)
def test_what_has_no_value_says_why(text, message):
    with pytest.raises(CExpressionError, match=message or "not a number"):
        value(text)


def test_a_condition_is_decided_as_far_as_its_names_are_known():
    known = {"i": NAMES["i"]}
    assert decided(parse("i == 1 && unknown > 2"), known.get, MOMENT) is False
    assert decided(parse("i == -7 && unknown > 2"), known.get, MOMENT) is None
    assert decided(parse("i == -7 || unknown > 2"), known.get, MOMENT) is True
    assert decided(parse("!(unknown)"), known.get, MOMENT) is None
