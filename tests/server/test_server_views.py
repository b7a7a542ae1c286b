"""Hovers, hints, links, pull diagnostics, unsaved headers, changed settings, sockets, logs."""

from __future__ import annotations

import asyncio
import re
import subprocess
from pathlib import Path

import pytest
from lsprotocol import types
from pytest_lsp import make_test_lsp_client
from support.lsp_editor import COMMAND, PATIENCE, Editor, attach
from support.server_kernels import GOOD, PASSED, STORE_LINE, TOML, WRONG, write

NAME = GOOD.index("scale")


async def test_hover_shows_resources_occupancy_and_changes(editor: Editor):
    write(editor.root, WRONG)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    editor.save("scale.cu", GOOD)
    await editor.idle()
    text = await editor.hover("scale.cu", 0, NAME)
    assert PASSED.search(text) and "since the previous save: failed → passed" in text
    assert re.search(r"\| sm_80 \| \d+ \| 0 B .*100 % at 128 threads", text)


async def test_hover_on_a_finding_shows_values_and_an_error_map(editor: Editor):
    partly = WRONG.replace(
        "if (i < n) {", "if (i < n && i >= 3) {\n        y[i] = 2.0f * x[i];\n    } else if (i < n) {"
    )
    write(editor.root, partly)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    (wrong,) = editor.found("scale.cu")
    text = await editor.hover("scale.cu", wrong.range.start.line, wrong.range.start.character)
    assert "| `y[0]` |" in text and f"case {wrong.data['case']}" in text and "```text" in text
    assert f"{wrong.data['count']} of {wrong.data['total']} elements are wrong" in text


async def test_hover_on_a_limit_shows_the_measured_value(editor: Editor):
    write(editor.root)
    config = TOML + "\n[kernels.artifact_checks]\nmax_registers = 64\n"
    (editor.root / "gpuemu.toml").write_text(config, encoding="utf-8")
    await editor.start()
    editor.open("gpuemu.toml")
    editor.open("scale.cu")
    await editor.idle()
    line = config.split("\n").index("max_registers = 64")
    assert re.search(r"Measured: \d+ on sm_80", await editor.hover("gpuemu.toml", line, 3))


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        (GOOD.replace("2.0f * x[i]", "i < 1 ? 2.0f * x[i] : 0.0f / (x[i] - x[i])"), "result NaN"),
        (GOOD.replace("2.0f", "i == 40 ? 2.5f : 2.0f"), "largest error of the cases that passed 0 % of the tolerance"),
        (GOOD, "largest error 0 % of the tolerance"),
    ],
)
async def test_a_hover_says_what_the_largest_error_is_of(editor: Editor, source: str, shown: str):
    write(editor.root, source)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    text = await editor.hover("scale.cu", 0, NAME)
    assert shown in text and ("tolerance" in text) is ("NaN" not in shown), text


async def test_inlay_hints_and_lenses_follow_the_settings(editor: Editor):
    write(editor.root, WRONG)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    where = types.TextDocumentIdentifier(editor.uri("scale.cu"))
    everything = types.Range(types.Position(0, 0), types.Position(9, 0))
    ask = types.InlayHintParams(where, everything)
    assert not await editor.client.text_document_inlay_hint_async(ask)
    lenses = await editor.client.text_document_code_lens_async(types.CodeLensParams(where))
    assert [lens.command.title for lens in lenses][1:] == ["Fuzz", "Minimize", "Show PTX"]
    change = types.DidChangeConfigurationParams({"gpuemu": {"inlayHints": True, "codeLens": False}})
    editor.client.workspace_did_change_configuration(change)
    hint, values = await editor.client.text_document_inlay_hint_async(ask)
    assert values.position.line == STORE_LINE
    assert re.match(r"\d+ regs, FAILED", hint.label) and hint.position == types.Position(0, NAME + len("scale"))
    assert not await editor.client.text_document_code_lens_async(types.CodeLensParams(where))


async def test_names_and_paths_link_to_kernels_and_files(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("gpuemu.toml")
    editor.open("scale.cu")
    where = types.TextDocumentIdentifier(editor.uri("gpuemu.toml"))
    links = await editor.client.text_document_document_link_async(types.DocumentLinkParams(where))
    assert [link.target for link in links] == [editor.uri("scale.cu"), editor.uri("ref.py")]
    ask = types.DefinitionParams(where, types.Position(1, 9))
    found = await editor.client.text_document_definition_async(ask)
    assert found.uri == editor.uri("scale.cu") and found.range.start == types.Position(0, NAME)
    back = types.DefinitionParams(types.TextDocumentIdentifier(editor.uri("scale.cu")), types.Position(0, NAME))
    found = await editor.client.text_document_definition_async(back)
    assert found.uri == editor.uri("gpuemu.toml") and found.range.start.line == 1


async def test_like_leads_to_the_entry_it_names(editor: Editor):
    write(editor.root)
    config = editor.root / "gpuemu.toml"
    config.write_text('[[kernels]]\nname = "copy"\nlike = "scale"\n' + config.read_text())
    await editor.start()
    editor.open("gpuemu.toml")
    where = types.TextDocumentIdentifier(editor.uri("gpuemu.toml"))
    links = await editor.client.text_document_document_link_async(types.DocumentLinkParams(where))
    assert [link.target for link in links] == [editor.uri("scale.cu"), editor.uri("ref.py")]
    ask = types.DefinitionParams(where, types.Position(2, 9))
    found = await editor.client.text_document_definition_async(ask)
    assert found.uri == editor.uri("gpuemu.toml") and found.range.start.line == 4


async def test_every_diagnostic_links_to_its_rule(editor: Editor):
    write(editor.root, WRONG)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    (wrong,) = editor.found("scale.cu")
    page, _, line = wrong.code_description.href.removeprefix("file://").partition("#L")
    assert Path(page).read_text(encoding="utf-8").split("\n")[int(line) - 1] == f"### {wrong.code}"


async def test_an_unsaved_header_is_compiled(editor: Editor):
    write(editor.root, '#include "factor.h"\n' + GOOD.replace("2.0f", "FACTOR"))
    (editor.root / "factor.h").write_text("#define FACTOR 2.0f\n", encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    editor.open("factor.h")
    await editor.idle()
    editor.replace("factor.h", "#define FACTOR nowhere\n")
    await editor.idle()
    assert "compile/error" in editor.codes("scale.cu") | editor.codes("factor.h")
    editor.replace("factor.h", "#define FACTOR 2.0f\n")
    await editor.idle()
    assert not editor.codes("scale.cu") | editor.codes("factor.h")


async def test_manual_checks(editor: Editor):
    write(editor.root, WRONG)
    await editor.start(settings={"checkOn": "manual"})
    editor.open("scale.cu")
    await editor.idle()
    assert editor.found("scale.cu") == []
    await editor.command("gpuemu.check", editor.uri("scale.cu"))
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}


async def test_invalid_settings_are_logged_and_keep_their_defaults(editor: Editor):
    write(editor.root)
    await editor.start()
    change = types.DidChangeConfigurationParams({"gpuemu": {"cases": "many", "jobs": 1, "unknown": 3}})
    editor.client.workspace_did_change_configuration(change)
    await editor.until(lambda: any("gpuemu.cases must be" in item.message for item in editor.client.log_messages))
    editor.open("scale.cu")
    await editor.idle()
    assert PASSED.search(await editor.hover("scale.cu", 0, NAME))


async def test_pulled_diagnostics_are_not_pushed(editor: Editor):
    write(editor.root, WRONG)
    await editor.start(diagnostics="pull")
    editor.open("scale.cu")
    await editor.idle()
    where = types.TextDocumentIdentifier(editor.uri("scale.cu"))
    first = await editor.client.text_document_diagnostic_async(types.DocumentDiagnosticParams(where))
    assert "numeric/tolerance-exceeded" in {item.code for item in first.items}
    again = types.DocumentDiagnosticParams(where, previous_result_id=first.result_id)
    assert (await editor.client.text_document_diagnostic_async(again)).kind == "unchanged"
    assert editor.last("scale.cu") is None and editor.client.diagnostic_refresh_count > 0


async def test_the_log_is_written_to_the_configured_file(editor: Editor):
    log = editor.root / "logs" / "server.log"
    write(editor.root)
    await editor.start(settings={"logFile": str(log), "logLevel": "debug"})
    editor.open("scale.cu")
    await editor.idle()
    assert log.exists()


async def test_debug_info_names_versions_settings_and_files(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    text = await editor.command("gpuemu.debugInfo")
    for part in ("# gpuemu-lsp", "NVRTC", "`checkOn`: `'save'`", str(editor.root), "scale.cu"):
        assert part in text


async def test_memory_does_not_grow_with_edits(editor: Editor):
    async def counts() -> str:
        await editor.idle()
        lines = (await editor.command("gpuemu.debugInfo")).split("\n")
        return next(line for line in lines if line.startswith("Kept:")).partition(";")[0]

    write(editor.root, WRONG)
    await editor.start()
    editor.open("scale.cu")
    editor.open("gpuemu.toml")
    await editor.idle()
    editor.save("scale.cu", GOOD)
    before = await counts()
    for number in range(30):
        editor.save("scale.cu", WRONG.replace("2.5f", f"2.{number}f"))
        editor.replace("gpuemu.toml", TOML + f"# {number}\n")
        await editor.hover("scale.cu", 0, GOOD.index("scale"))
        editor.close("scale.cu")
        editor.open("scale.cu")
    editor.save("scale.cu", GOOD)
    assert await counts() == before
    assert before.endswith(" 1 messages in progress")  # the command itself


@pytest.mark.parametrize("option", ["--tcp", "--ws"])
async def test_a_socket_on_this_machine(tmp_path: Path, option: str, unused_tcp_port: int):
    write(tmp_path, WRONG)
    if option == "--ws":
        pytest.importorskip("websockets")
    server = subprocess.Popen([*COMMAND[:-1], option, f"127.0.0.1:{unused_tcp_port}"])
    editor = Editor(make_test_lsp_client(), tmp_path)
    attach(editor)
    try:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    if option == "--tcp":
                        await editor.client.start_tcp("127.0.0.1", unused_tcp_port)
                    else:
                        await editor.client.start_ws("127.0.0.1", unused_tcp_port)
                    break
                except OSError:
                    await asyncio.sleep(0.1)
        await editor.start()
        editor.open("scale.cu")
        await editor.idle()
        assert editor.found("scale.cu")[0].range.start.line == STORE_LINE
        await editor.client.shutdown_session()
    finally:
        server.kill()
        server.wait()


def test_only_this_machine_may_connect():
    result = subprocess.run([*COMMAND[:-1], "--tcp", "0.0.0.0:4711"], capture_output=True, text=True, check=False)
    assert result.returncode == 2 and "is not a loopback address" in result.stderr


async def test_the_values_of_the_failing_thread_follow_the_shown_case_until_their_line_is_edited(editor: Editor):
    write(editor.root, WRONG)
    await editor.start(inlayHints=True)
    editor.open("scale.cu")
    await editor.idle()

    async def values() -> list[tuple[int, int, str]]:
        everything = types.Range(types.Position(0, 0), types.Position(20, 0))
        ask = types.InlayHintParams(types.TextDocumentIdentifier(editor.uri("scale.cu")), everything)
        hints = await editor.client.text_document_inlay_hint_async(ask) or []
        return [(one.position.line, one.position.character, one.label) for one in hints if "x[" in str(one.label)]

    (shown,) = await values()
    (error,) = editor.found("scale.cu")
    line = WRONG.split("\n")[STORE_LINE]
    assert shown[:2] == (STORE_LINE, len(line))
    assert re.fullmatch(r"x\[(\d+)\] = \S+, y\[\1\] = \S+ \(expected \S+\), i = \1", shown[2])
    assert [one["name"] for one in error.data["values"]][-1] == "i"
    top = types.Range(types.Position(0, 0), types.Position(0, 0))
    editor.change("scale.cu", types.TextDocumentContentChangePartial(top, "\n"))
    assert await values() == [(STORE_LINE + 1, *shown[1:])]
    end = types.Range(types.Position(STORE_LINE + 1, len(line)), types.Position(STORE_LINE + 1, len(line)))
    editor.change("scale.cu", types.TextDocumentContentChangePartial(end, " "))
    assert await values() == []
    editor.save("scale.cu", GOOD)
    await editor.idle()
    assert await values() == []
