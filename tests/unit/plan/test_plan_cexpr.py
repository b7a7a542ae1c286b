"""C integer expressions of launches."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.plan.cexpr import Scope, translate
from gpuemu_lsp.engine.project.expressions import evaluate, parse

_SIZES = {"n": "n", "rows": "m"}
_DEFINITIONS = {
    "BLOCK": "256",
    "TILE": "(1 << 5)",
    "total": "n * BLOCK",
    "loop": "loop + 1",
    "N": "n",
    "T": "float",
    "LOG": "5",
}


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("(n + 255) / 256", 4),
        ("(n + BLOCK - 1) / BLOCK", 4),
        ("CEIL_DIV(n, TILE)", 32),
        ("cdiv(n, 256)", 4),
        ("utils::div_up(n, 300)", 4),
        ("(int)ceil(n / 256.0)", None),
        ("ceil((float)n / 256)", 4),
        ("static_cast<unsigned int>((n + 1023) / 1024)", 1),
        ("1 << 20", 1 << 20),
        ("1 << 5 + 1", 64),
        ("1 << LOG", 32),
        ("n >> 1", 500),
        ("total / n", 256),
        ("N % 7", 6),
        ("min(n, 32)", 32),
        ("std::max(1, (int)rows)", 10),
        ("4 * sizeof(float)", 16),
        ("BLOCK * sizeof(T)", 1024),
        ("-(-n)", 1000),
        ("0x10u + 1ULL", 17),
        ("n - rows - 1", 989),
        ("loop", None),
        ("blocks", None),
        ("f(n)", None),
        ("n +", None),
        ("n ? 1 : 2", None),
        ("x.size(0)", None),
        ("n << rows", None),
    ],
)
def test_values(text: str, value: int | None) -> None:
    """The translation has the value that the expression has in C, or is None."""
    translated = translate(text, Scope(_SIZES, _DEFINITIONS))
    found = None if translated is None else evaluate(parse(translated), {"n": 1000, "m": 10})
    assert found == value
