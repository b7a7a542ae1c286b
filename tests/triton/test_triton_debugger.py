"""A failing case of a Triton kernel in the debugger: lines, arguments and memory have names, other values have none."""

from __future__ import annotations

import pytest
from support.debug_sessions import SessionClient, recorded

SCALED_SUM = """import triton
import triton.language as tl


@triton.jit
def scaled_sum(x, y, out, n, scale, BLOCK: tl.constexpr):
    offsets = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    mask = offsets < n
    added = tl.load(x + offsets, mask=mask) + scale * tl.load(y + offsets, mask=mask)
    tl.store(out + offsets, added + 1.0, mask=mask)
"""
ENTRY = """[[kernels]]
name = "scaled_sum"
language = "triton"
source = "scaled_sum.py"
entry = "scaled_sum"
reference = "reference.py:scaled_sum"
[kernels.dims]
n = { min = 5, max = 300 }
[kernels.args]
x = { in = ["n"] }
y = { in = ["n"] }
out = { out = ["n"] }
n = "n"
scale = 2.5
[kernels.constexprs]
BLOCK = 128
[kernels.launch]
grid = "ceil_div(n, BLOCK)"
"""
REFERENCE = "def scaled_sum(inputs, n):\n    return inputs['x'] + 2.5 * inputs['y']\n"


@pytest.fixture(scope="module")
def session(tmp_path_factory):
    root = tmp_path_factory.mktemp("scaled_sum")
    (root / "scaled_sum.py").write_text(SCALED_SUM)
    (root / "gpuemu.toml").write_text(ENTRY)
    (root / "reference.py").write_text(REFERENCE)
    return SessionClient(*recorded(root))


def test_arguments_have_names_and_the_session_says_that_variables_have_none(session):
    assert session.line == 10
    assert session.values("Arguments") == {"n": session.evaluate("n"), "scale": "2.5", "BLOCK": "128"}
    assert float(session.evaluate("n * scale")) == 2.5 * int(session.evaluate("n"))
    assert any("no variables" in note for note in session.session.subject.notes)
    assert len(session.rows("Registers")) > 5


def test_memory_is_followed_to_the_lines_that_wrote_and_read_it(session):
    element = session.session.subject.text.partition(" = ")[0]
    answer = session.evaluate("why", "repl")
    assert f"{element} = " in answer and "10 | tl.store" in answer and "scale = 2.5" in answer
    assert "line 9" in session.evaluate(element.replace("out", "readers x"), "repl")
    assert session.move("stepBack") == 9
