"""pyptx kernels in the language server: diagnostics on the lines of the `.py`, and a hover."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest
from lsprotocol import types
from support.lsp_editor import Editor

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pyptx") is None, reason="pyptx is not installed")

SCALE = """\
from pyptx import Tile, kernel, ptx, reg
from pyptx.types import f32, u32


@kernel(
    in_specs=(Tile("N", f32),),
    out_specs=(Tile("N", f32),),
    grid=lambda N: (N // 32, 1, 1),
    block=(32, 1, 1),
    arch="sm_80",
)
def scale(X, Y):
    x, y = ptx.global_ptrs(X, Y)
    i = reg.scalar(u32)
    ptx.inst.mov.u32(i, ptx.special.ctaid.x())
    i = i * 32 + reg.from_(ptx.special.tid.x(), u32)
    value = reg.scalar(f32)
    ptx.inst.ld.global_.f32(value, ptx.addr(x + i * 4))
    ptx.inst.st.global_.f32(ptx.addr(y + i * 4), value)
    ptx.ret()


def size():
    return len(scale.ptx(N=64))
"""
WRONG = SCALE.replace("ptx.addr(y + i * 4)", "ptx.addr(y + i * 4 + 4)")
NAME_LINE, STORE_LINE = 11, 18


async def test_a_finding_on_its_line_until_it_is_fixed(editor: Editor):
    (editor.root / "model.py").write_text(WRONG, encoding="utf-8")
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    errors = [item for item in editor.found("model.py") if item.severity == 1]
    assert {(item.code, item.range.start.line) for item in errors} == {("memory/out-of-bounds", STORE_LINE)}
    hover = await editor.hover("model.py", NAME_LINE, 5)
    assert "**scale**" in hover and "FAILED" in hover and "| sm_80 |" in hover
    editor.save("model.py", SCALE)
    await editor.idle()
    assert [item for item in editor.found("model.py") if item.severity in (1, 2)] == []


async def test_show_ptx_marks_the_lines_that_emitted_it(editor: Editor):
    (editor.root / "model.py").write_text(SCALE, encoding="utf-8")
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    shown = await editor.command("gpuemu.showArtifact", editor.uri("model.py"), "scale", "ptx")
    lines = Path(shown["path"]).read_text(encoding="utf-8").split("\n")
    line = next(number for number, content in enumerate(lines) if "st.global.f32" in content)
    where = types.DefinitionParams(types.TextDocumentIdentifier(shown["uri"]), types.Position(line, 4))
    found = await editor.client.text_document_definition_async(where)
    assert (found.uri, found.range.start.line) == (editor.uri("model.py"), STORE_LINE)
