"""Hovers, lenses, completion, commands, progress and status."""

from __future__ import annotations

import asyncio

from lsprotocol import types
from support.lsp_editor import Editor
from support.server_kernels import GOOD, PASSED, SPIN, TOML, write


async def _hover(editor: Editor, name: str, line: int, character: int) -> str:
    where = types.TextDocumentIdentifier(editor.uri(name))
    result = await editor.client.text_document_hover_async(types.HoverParams(where, types.Position(line, character)))
    return result.contents.value if result is not None else ""


async def test_hover_and_lens_show_the_result(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    text = await _hover(editor, "scale.cu", 0, GOOD.index("scale") + 1)
    assert PASSED.search(text) and "| sm_80 |" in text
    assert await _hover(editor, "scale.cu", 1, 4) == ""
    where = types.TextDocumentIdentifier(editor.uri("scale.cu"))
    lens, *_ = await editor.client.text_document_code_lens_async(types.CodeLensParams(where))
    assert lens.range.start.line == 0 and lens.command.command == "gpuemu.check"
    assert PASSED.match(lens.command.title, len("gpuemu: "))
    editor.replace("scale.cu", GOOD.replace("2.0f", "7.0f"))
    lens, *_ = await editor.client.text_document_code_lens_async(types.CodeLensParams(where))
    assert "before your edits" in lens.command.title


async def test_counters_are_in_hovers_and_hints_if_enabled(editor: Editor):
    far = GOOD.replace("2.0f * x[i]", "2.0f * x[i] + 0.0f * (((const volatile float*)x)[(i * 33) % n] == 1.0f)")
    write(editor.root, far)
    await editor.start(settings={"counters": True})
    editor.open("scale.cu")
    await editor.idle()
    text = await _hover(editor, "scale.cu", 0, far.index("scale") + 1)
    assert "flop/B" in text
    text = await _hover(editor, "scale.cu", 3, 10)
    assert "lanes each; global load:" in text and "global store: 3.9 sectors per request, at least 3.9" in text
    assert [item.code for item in editor.last("scale.cu").diagnostics] == ["perf/uncoalesced"]
    editor.replace("scale.cu", far.replace("33", "32"))
    assert "sectors per request" not in await _hover(editor, "scale.cu", 3, 10)


async def test_configuration_keys_are_explained_and_offered(editor: Editor):
    write(editor.root)
    await editor.start()
    text = TOML + "\n[kernels.artifact_checks]\nmax_reg"
    editor.open("gpuemu.toml", text)
    assert "**reference**" in await _hover(editor, "gpuemu.toml", 3, 2)
    lines = text.split("\n")
    at = types.CompletionParams(
        types.TextDocumentIdentifier(editor.uri("gpuemu.toml")), types.Position(len(lines) - 1, len(lines[-1]))
    )
    labels = {item.label for item in await editor.client.text_document_completion_async(at)}
    assert {"max_registers", "forbidden_patterns"} <= labels and "source" not in labels
    at.position = types.Position(1, 0)
    labels = {item.label for item in await editor.client.text_document_completion_async(at)}
    assert {"name", "source", "dims"} <= labels


async def test_a_check_that_lasts_shows_progress_and_can_be_cancelled(editor: Editor):
    write(editor.root, SPIN)
    await editor.start()
    editor.open("scale.cu")
    await editor.until(lambda: "begin" in editor.progress)
    answer = await editor.client.workspace_execute_command_async(types.ExecuteCommandParams("gpuemu.cancel"))
    assert answer["cancelled"] == 1
    await asyncio.wait_for(editor.idle(), 2)
    await editor.until(lambda: editor.progress[-1] == "end")
    assert editor.found("scale.cu") == []


async def test_commands_answer_at_once_and_check_again(editor: Editor):
    write(editor.root)
    await editor.start()
    everything = types.ExecuteCommandParams("gpuemu.checkAll")
    assert (await editor.client.workspace_execute_command_async(everything))["queued"] == 1
    one = types.ExecuteCommandParams("gpuemu.check", [editor.uri("scale.cu")])
    assert (await editor.client.workspace_execute_command_async(one))["queued"] == 1
    await editor.idle()
    text = await _hover(editor, "scale.cu", 0, GOOD.index("scale") + 1)
    assert text == ""  # it is not open
    editor.open("scale.cu")
    assert "passed" in await _hover(editor, "scale.cu", 0, GOOD.index("scale") + 1)


async def test_status_has_the_versions_results_depend_on(editor: Editor):
    await editor.start()
    await editor.until(lambda: bool(editor.statuses) and hasattr(editor.statuses[-1].versions, "NVRTC"))
    assert editor.statuses[-1].health == "ok" and editor.statuses[-1].quiescent is True
