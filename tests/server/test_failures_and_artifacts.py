"""The list of failing cases, the details of one, and PTX and SASS."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from support.lsp_editor import Editor
from support.server_kernels import GOOD, OUT_OF_BOUNDS, STORE_LINE, WRONG, write


async def test_failures_are_listed_until_they_are_fixed(editor: Editor):
    write(editor.root, WRONG)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    assert len(editor.received("gpuemu/failuresChanged")) == 1
    listed = (await editor.ask("gpuemu/failures", {"textDocument": {"uri": editor.uri("scale.cu")}}))["failures"]
    assert {item["kernel"] for item in listed} == {"scale"}
    assert {item["range"]["start"]["line"] for item in listed} == {STORE_LINE}
    assert all(item["id"].isdigit() and item["uri"] == editor.uri("scale.cu") for item in listed)
    editor.save("scale.cu", GOOD)
    await editor.idle()
    assert (await editor.ask("gpuemu/failures", {}))["failures"] == []
    assert len(editor.received("gpuemu/failuresChanged")) == 2


async def test_a_failure_has_values_and_an_error_map(editor: Editor):
    write(
        editor.root,
        WRONG.replace("if (i < n) {", "if (i < n && i >= 4) {\n        y[i] = x[i] * 2.0f;\n    } else if (i < n) {"),
    )
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    listed = (await editor.ask("gpuemu/failures", {}))["failures"]
    chosen = max(listed, key=lambda item: item["dims"]["n"])
    panel = await editor.ask("gpuemu/failure", {"uri": editor.uri("scale.cu"), "id": chosen["id"]})
    assert panel["elements"][0]["index"] == [0] and panel["elements"][0]["buffer"] == "y"
    first = panel["elements"][0]
    assert abs(first["expected"] * 1.25 - first["actual"]) <= 1e-3 * abs(first["actual"])
    picture = panel["picture"]
    assert picture["shape"] == [chosen["dims"]["n"]]
    assert len(picture["wrong"]) == picture["rows"] and len(picture["wrong"][0]) == picture["cols"]
    assert picture["wrong"][0][:5] == [1.0, 1.0, 1.0, 1.0, 0.0]
    assert ["Type", "float32"] in panel["facts"] and panel["minimized"] is None
    assert panel["commands"]["reproduce"].startswith(f"gpuemu reproduce {chosen['id']}")


async def test_a_failure_without_numbers_has_no_picture(editor: Editor):
    write(editor.root, OUT_OF_BOUNDS)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    (first, *_) = (await editor.ask("gpuemu/failures", {}))["failures"]
    panel = await editor.ask("gpuemu/failure", {"uri": editor.uri("scale.cu"), "id": first["id"]})
    assert panel["rule"] == "memory/out-of-bounds" and panel["picture"] is None and panel["elements"] == []
    assert "Thread" in dict(map(tuple, panel["facts"]))


async def test_an_unknown_case_is_an_error(editor: Editor):
    write(editor.root)
    await editor.start()
    with pytest.raises(JsonRpcException, match="no stored case 17"):
        await editor.ask("gpuemu/failure", {"uri": editor.uri("scale.cu"), "id": "17"})


@pytest.mark.parametrize(("form", "store"), [("ptx", "st.global.f32"), ("sass", "STG")])
async def test_ptx_and_sass_map_to_source_lines(editor: Editor, form: str, store: str):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu")
    params = {"textDocument": {"uri": editor.uri("scale.cu")}, "kernel": "scale", "form": form}
    answer = await editor.ask("gpuemu/artifact", params)
    lines = answer["text"].split("\n")
    mine = [
        line for span in answer["map"] if span["line"] == STORE_LINE for line in lines[span["first"] : span["last"] + 1]
    ]
    assert any(store in line for line in mine)
    assert answer["arch"] == "sm_80" and answer["title"] == f"scale {form.upper()} (sm_80)"
    newer = await editor.ask("gpuemu/artifact", {**params, "arch": "sm_90"})
    assert newer["arch"] == "sm_90" and newer["text"] != answer["text"]


async def test_artifacts_are_virtual_documents(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu", GOOD.replace("2.0f", "3.0f"))
    answer = await editor.command("gpuemu.showArtifact", editor.uri("scale.cu"), "scale", "ptx")
    content = await editor.ask("workspace/textDocumentContent", types.TextDocumentContentParams(answer["uri"]))
    assert ".visible .entry scale(" in content.text and "0f40400000" in content.text  # 3.0f, from unsaved text


async def test_a_kernel_that_does_not_compile_has_no_artifact(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu", GOOD.replace("2.0f", "nowhere"))
    params = {"textDocument": {"uri": editor.uri("scale.cu")}, "kernel": "scale", "form": "sass"}
    with pytest.raises(JsonRpcException, match="nowhere"):
        await editor.ask("gpuemu/artifact", params)
    with pytest.raises(JsonRpcException, match="no kernel 'other'"):
        await editor.ask("gpuemu/artifact", {**params, "kernel": "other"})


@pytest.mark.parametrize(("form", "store"), [("ptx", r"st\.global"), ("sass", r"\bSTG")])
async def test_the_definition_of_an_instruction_is_its_source_line(editor: Editor, form: str, store: str):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu")
    written = await editor.command("gpuemu.showArtifact", editor.uri("scale.cu"), "scale", form)
    lines = Path(written["path"]).read_text(encoding="utf-8").split("\n")
    line = next(number for number, content in enumerate(lines) if re.search(store, content))
    for uri in (Path(written["path"]).as_uri(), written["uri"]):
        for number, expected in ((line, STORE_LINE), (0, None)):
            where = types.DefinitionParams(types.TextDocumentIdentifier(uri), types.Position(number, 4))
            found = await editor.client.text_document_definition_async(where)
            if expected is None:
                assert found is None
            else:
                assert (found.uri, found.range.start.line) == (editor.uri("scale.cu"), expected)


async def test_only_a_triton_kernel_has_the_representations_of_triton(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu")
    params = {"textDocument": {"uri": editor.uri("scale.cu")}, "kernel": "scale", "form": "ttgir"}
    with pytest.raises(JsonRpcException, match="only a Triton kernel has TTGIR"):
        await editor.ask("gpuemu/artifact", params)
    with pytest.raises(JsonRpcException, match="one of ptx, sass, ttir, ttgir"):
        await editor.ask("gpuemu/artifact", {**params, "form": "llir"})
