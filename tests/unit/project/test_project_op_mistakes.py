"""Every kind of error in an ``[[ops]]`` entry: its rule, the text underlined, and a part of the message.

The rows mark the underlined text with « and », and continue the entry ``o``.
"""

from __future__ import annotations

import re

import pytest

from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.project.keys.op_keys import OP
from gpuemu_lsp.engine.project.model import OpSpec
from gpuemu_lsp.engine.workers.wire import from_json, to_json

ENTRY = "[[ops]]\nname = 'o'\nreference = 'ref.py'\n"
ARGS, KWARGS = "[ops.args]\n", "[ops.kwargs]\n"
UNKNOWN, BAD, MISSING, FILE = "config/unknown-key", "config/bad-value", "config/missing-key", "config/missing-file"

MISTAKES = [
    ("op = «'lib.f'»", BAD, "write `module:function`"),
    ("op = «3»", BAD, "`module:function`"),
    ("op = 'lib:f'\nrun = «'ref.py'»", BAD, "both say how the op is run"),
    ("run = «'reff.py'»", FILE, "`ref.py`"),
    ("op_script = «'reff.py:op'»", FILE, "`ref.py`"),
    ("python = «'bin/python'»", FILE, "does not exist"),
    ("python = «'.'»", FILE, "is a folder"),
    ("module = «''»", BAD, "empty"),
    ("op_schema = «'no.json'»", FILE, "does not exist"),
    ("op_schema = «'ref.py'»\n[ops.args]\nx = { in = [3] }", BAD, "both state the inputs"),
    ("input_names = [«3»]", BAD, "Item 1 of `input_names`"),
    ("input_names = ['x', «'x'»]", BAD, "listed twice"),
    ("input_names = ['x', «'y'»]\n[ops.args]\nx = { in = [3] }", BAD, "not in `[ops.args]`"),
    ("input_names = «'y'»\n[ops.args]\nx = { in = [3] }", BAD, "not in `[ops.args]`"),
    ("dtypes = «'flot32'»", BAD, "`float32`"),
    ("layouts = ['contiguous', «'row'»]", BAD, "Item 2 of `layouts`"),
    ("execution_mode = «'client'»", BAD, '"client_side"'),
    ("frameworks = [«1»]", BAD, "Item 1 of `frameworks`"),
    ("«opp» = 'lib:f'", UNKNOWN, "Did you mean `op`"),
    ("«source» = 'k.cu'", UNKNOWN, "`[[kernels]]`"),
    ("dims = «3»", BAD, "a table"),
    ("[ops.dims]\nn = { min = «5», max = 3 }", BAD, "above `max`"),
    (ARGS + "x = { in = ['«m»'] }", BAD, "add it to `[ops.dims]`"),
    (ARGS + "x = '«mean»'", BAD, "A text argument goes in `[ops.kwargs]`"),
    (ARGS + "x = { in = [3], range = «[3, 1]» }", BAD, "Empty range"),
    (ARGS + "x = { in = [3], «compare» = false }", BAD, "outputs only"),
    (KWARGS + "x = «{ a = 1 }»", BAD, "text, a number, true or false"),
    (KWARGS + "x = [1, «[2]»]", BAD, "Item 2 of `x`"),
    (KWARGS + "x = «2020-01-01»", BAD, "a date or time"),
    (KWARGS + "«'a b'» = 1", BAD, "not a C identifier"),
    ("kwargs = «1»", BAD, "a table"),
    (ARGS + "x = 1\n" + KWARGS + "«x» = 2", BAD, "in `[ops.args]` too"),
    ("[ops.tolerances]\nf32 = «-1»", BAD, "at least 0"),
    ("[ops.invariants]\n«no_nann» = true", UNKNOWN, "`no_nan`"),
]


@pytest.mark.parametrize(("text", "rule", "words"), MISTAKES)
def test_a_mistake_is_on_its_value(tmp_path, text, rule, words):
    (tmp_path / "ref.py").write_text("")
    marked = ENTRY + text + "\n"
    start, end = marked.index("«"), marked.index("»") - 1
    plain = re.sub("[«»]", "", marked)
    (tmp_path / "gpuemu.toml").write_text(plain, encoding="utf-8")
    project = load(tmp_path / "gpuemu.toml")
    (finding,) = project.findings
    assert (finding.rule, words in finding.message) == (rule, True), finding.message
    lines = plain.split("\n")
    span = finding.place.range
    offsets = [sum(len(line) + 1 for line in lines[: at.line]) + at.column for at in (span.start, span.end)]
    assert plain[offsets[0] : offsets[1]] == plain[start:end]
    assert (project.kernels, project.broken) == ((), ("o",))


def test_every_key_has_a_mistake():
    rows = ENTRY + "\n".join(text for text, _, _ in MISTAKES)
    assert not [key.name for key in OP.keys if not re.search(rf"\b{key.name}\b", rows)]


def test_keyword_values_are_kept_as_written(tmp_path):
    (tmp_path / "ref.py").write_text("")
    text = KWARGS + "a = 'cols'\nb = true\nc = 3\nd = -0.5\ne = [1, 'x']\nf = ''\ng = inf\n"
    (tmp_path / "gpuemu.toml").write_text(ENTRY + text)
    (spec,) = load(tmp_path / "gpuemu.toml").kernels
    assert spec.op is not None
    expected = {"a": "cols", "b": True, "c": 3, "d": -0.5, "e": (1, "x"), "f": "", "g": float("inf")}
    for found in (spec.op.kwargs, from_json(OpSpec, to_json(spec.op)).kwargs):
        assert [(name, value, type(value)) for name, value in found.items()] == [
            (name, value, type(value)) for name, value in expected.items()
        ]
