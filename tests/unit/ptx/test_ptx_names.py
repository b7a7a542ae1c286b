"""Names at positions of a PTX text."""

from __future__ import annotations

import pytest
from support.ptx_texts import LINES, SCALE, line_of

from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.names import PtxNameKind, name_at
from gpuemu_lsp.engine.ptx.opcodes import described


def _at(line_text, word):
    line = line_of(line_text)
    return name_at(parse(SCALE), line, LINES[line].index(word) + 1)


@pytest.mark.parametrize(
    ("line", "word", "kind", "detail", "defined", "used"),
    [
        ("st.global", "%f2", PtxNameKind.REGISTER, ".f32", ["add.f32"], ["st.global"]),
        ("st.global", "%rd7", PtxNameKind.REGISTER, ".b64", ["add.s64 %rd7"], ["st.global"]),
        ("@%p1 bra", "%p1", PtxNameKind.REGISTER, ".pred", ["setp.ge"], ["@%p1 bra"]),
        ("@%p1 bra", "DONE", PtxNameKind.LABEL, "", ["DONE:"], ["@%p1 bra"]),
        ("ld.param.u32", "scale_param_2", PtxNameKind.PARAMETER, ".param .u32, 4 bytes", [".u32 scale_param_2"], []),
        (".entry", "scale", PtxNameKind.FUNCTION, ".entry", [".entry"], []),
        ("%ctaid.x", "%ctaid", PtxNameKind.SPECIAL, "", [], []),
        ("st.global", "st.global.f32", PtxNameKind.INSTRUCTION, "", [], []),
    ],
)
def test_a_name(line, word, kind, detail, defined, used):
    name = _at(line, word)
    assert (name.kind, name.detail) == (kind, detail)
    assert [one.start.line for one in name.definitions] == list(map(line_of, defined))
    assert [one.start.line for one in name.uses] == list(map(line_of, used))
    for one in name.definitions:
        assert LINES[one.start.line][one.start.column : one.end.column] == name.text


@pytest.mark.parametrize("position", [(3, 0), (10_000, 0), (line_of("mul.wide"), len(LINES[line_of("mul.wide")]) - 1)])
def test_no_name(position):
    assert name_at(parse(SCALE), *position) is None


def test_what_an_instruction_does():
    what, parts = described("ld.global.v4.f32")
    assert "load" in what and dict(parts) == {"global": "global memory", "v4": "four elements"}
    assert described("unknown.f32") is None
