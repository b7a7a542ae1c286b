"""Measurements compared with the previous save and the baseline, in hovers and lenses."""

from __future__ import annotations

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from support.lsp_editor import Editor
from support.server_kernels import GOOD, TOML, WRONG, write

NAME = GOOD.index("scale")
LARGER = GOOD.replace("2.0f * x[i]", "x[i] + x[(i + 1) % n] + x[(i + 2) % n] + x[(i + 3) % n]")


async def _lens(editor: Editor) -> str:
    where = types.CodeLensParams(types.TextDocumentIdentifier(editor.uri("scale.cu")))
    lens, *_ = await editor.client.text_document_code_lens_async(where)
    return str(lens.command.title)


async def test_changes_since_the_previous_save(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    assert "previous save" not in await editor.hover("scale.cu", 0, NAME) + await _lens(editor)
    editor.save("scale.cu", LARGER)
    await editor.idle()
    for text in (await editor.hover("scale.cu", 0, NAME), await _lens(editor)):
        changes = text.partition("since the previous save: ")[2]
        assert "passed → failed" in changes and "registers (sm_80)" in changes
        before, after = changes.partition(" registers")[0].rpartition(", ")[2].split(" → ")
        assert int(before) < int(after)


async def test_measurements_become_the_baseline(editor: Editor):
    write(editor.root)
    (editor.root / "gpuemu.toml").write_text(TOML + "\n[kernels.artifact_checks]\nmax_registers = 2\n", "utf-8")
    await editor.start()
    with pytest.raises(JsonRpcException, match="nothing was measured yet"):
        await editor.command("gpuemu.acceptBaseline", editor.uri("scale.cu"))
    editor.open("scale.cu")
    await editor.idle()
    actions = await editor.actions("scale.cu", editor.found("scale.cu")[0])
    todo = actions["Accept the measurements of scale as baseline"].command
    assert await editor.command(todo.command, *todo.arguments) == {"accepted": ["scale"]}
    assert "since the baseline" not in await editor.hover("scale.cu", 0, NAME)
    editor.save("scale.cu", WRONG)
    await editor.idle()
    editor.save("scale.cu", WRONG + "\n")
    await editor.idle()
    text = await editor.hover("scale.cu", 0, NAME)
    assert "since the baseline accepted: passed → failed" in text and "previous save: passed" not in text
    with pytest.raises(JsonRpcException, match="must not start with '@'"):
        await editor.command("gpuemu.acceptBaseline", editor.uri("scale.cu"), "scale", "@saved")


async def test_the_case_that_is_shown_stays_the_same_at_every_save(editor: Editor):
    write(editor.root, WRONG)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    shown = []
    for number in range(4):
        editor.save("scale.cu", WRONG + "\n" * (number + 1))
        await editor.idle()
        (wrong,) = editor.found("scale.cu")
        shown.append(wrong.data["case"])
    assert len(set(shown)) == 1
