"""Constant expressions (PTX ISA section 4.5); the values are those that ptxas folds."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.ptx.expressions import constant


@pytest.mark.parametrize(
    ("text", "low"),
    [
        ("(3+4)*2", 14), ("1<<4|3", 19), ("3>2?7:9", 7), ("(.s64)-1 >> 4", 0xFFFFFFFF), ("(.u64)-1 >> 60", 15),
        ("-1U/2", 0xFFFFFFFF), ("!5", 0), ("~(5)", 0xFFFFFFFA), ("-7/2", 0xFFFFFFFD), ("1?2:3", 2), ("5==5", 1),
        ("2&&0", 0), ("-1 > 0U", 1), ("-1>0", 0), ("-1>>1", 0xFFFFFFFF), ("7-3-2", 2), ("0x10*2", 32),
        ("(.s64)(-1U)/2", 0), ("WARP_SZ*2", 64),
    ],
)  # fmt: skip
def test_values(text: str, low: int) -> None:
    value = constant(text)
    assert value is not None
    assert value.bits & 0xFFFFFFFF == low


@pytest.mark.parametrize(
    "text", ["", "1+", "(1", "1/0", "x+1", "1.5*2", "1 2", "(" * 500 + "1" + ")" * 500, "(" * 150 + "1"]
)
def test_no_constant_expressions(text: str) -> None:
    assert constant(text) is None
