"""PTX files in the language server: diagnostics on their lines, hovers and definitions of their names."""

from __future__ import annotations

from lsprotocol import types
from support.lsp_editor import Editor
from support.ptx_texts import LINES, ONE_TOO_MANY, SCALE, line_of


async def test_errors_of_the_run_and_of_the_text_on_their_lines(editor: Editor):
    (editor.root / "scale.ptx").write_text(ONE_TOO_MANY, encoding="utf-8")
    await editor.start()
    editor.open("scale.ptx")
    await editor.idle()
    (error,) = (item for item in editor.found("scale.ptx") if item.severity == 1)
    assert (error.code, error.range.start.line) == ("memory/out-of-bounds", line_of("ld.global"))
    # The store is at the same index, behind the end of an array of the same length.
    assert line_of("st.global") in {one.location.range.start.line for one in error.related_information or ()}
    editor.save("scale.ptx", SCALE)
    await editor.idle()
    assert [item for item in editor.found("scale.ptx") if item.severity in (1, 2)] == []
    editor.save("scale.ptx", SCALE.replace("[%rd7], %f2;", "[%rd7"))
    await editor.idle()
    (error,) = (item for item in editor.found("scale.ptx") if item.severity == 1)
    assert (error.code, error.range.start.line) == ("compile/error", line_of("st.global"))


async def test_hovers_and_definitions(editor: Editor):
    (editor.root / "scale.ptx").write_text(SCALE, encoding="utf-8")
    await editor.start()
    editor.open("scale.ptx")
    await editor.idle()
    store = line_of("st.global")

    async def definitions(word: str) -> list[int]:
        position = types.Position(store, LINES[store].index(word))
        where = types.DefinitionParams(types.TextDocumentIdentifier(editor.uri("scale.ptx")), position)
        found = await editor.client.text_document_definition_async(where)
        return [one.range.start.line for one in found or []]

    assert "store to memory" in await editor.hover("scale.ptx", store, LINES[store].index("st.global"))
    assert "`add.f32 %f2, %f1, %f1;`" in await editor.hover("scale.ptx", store, LINES[store].index("%f2"))
    declared = line_of(".reg .f32")
    assert "special" not in str(await editor.hover("scale.ptx", declared, LINES[declared].index("%f")))
    assert "**scale**" in await editor.hover("scale.ptx", line_of(".entry"), LINES[line_of(".entry")].index("scale"))
    assert await definitions("%f2") == [line_of("add.f32")]
    assert await definitions("%rd7") == [line_of("add.s64 %rd7")]
