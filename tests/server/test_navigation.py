"""Symbols, folding, references, completion of values and fixes of misspelt names, in sources and gpuemu.toml."""

from __future__ import annotations

import asyncio
import re
import sys
from pathlib import Path

from lsprotocol import types
from support.lsp_editor import PATIENCE, Editor
from support.server_kernels import GOOD, REFERENCE, TOML, write

from gpuemu_lsp import __version__

LAUNCHED = GOOD + "\nint main() {\n    float *x, *y;\n    scale<<<4, 128>>>(x, y, 512);\n}\n"


async def ask(editor: Editor, method: str, name: str, **params):
    document = types.TextDocumentIdentifier(editor.uri(name))
    request = getattr(editor.client, f"{method}_async")
    kind = {
        "text_document_document_symbol": types.DocumentSymbolParams,
        "text_document_folding_range": types.FoldingRangeParams,
        "text_document_references": types.ReferenceParams,
        "text_document_completion": types.CompletionParams,
    }[method]
    return await asyncio.wait_for(request(kind(text_document=document, **params)), PATIENCE)


async def _references(editor: Editor, name: str, line: int, character: int) -> list[tuple[str, int]]:
    context = types.ReferenceContext(include_declaration=True)
    position = types.Position(line, character)
    found = await ask(editor, "text_document_references", name, position=position, context=context)
    return sorted((item.uri.rpartition("/")[2], item.range.start.line) for item in found or [])


async def test_symbols_of_sources_are_left_to_another_server_if_so_configured(editor: Editor):
    write(editor.root)
    await editor.start(settings={"symbols": False})
    editor.open("scale.cu")
    editor.open("gpuemu.toml")
    assert await ask(editor, "text_document_document_symbol", "scale.cu") == []
    assert [item.name for item in await ask(editor, "text_document_document_symbol", "gpuemu.toml")] == ["scale"]
    found = await asyncio.wait_for(editor.client.workspace_symbol_async(types.WorkspaceSymbolParams("scale")), PATIENCE)
    assert {Path(item.location.uri).name for item in found} == {"gpuemu.toml"}


async def test_symbols_and_folds_of_sources_and_configurations(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu")
    editor.open("gpuemu.toml")
    assert [item.name for item in await ask(editor, "text_document_document_symbol", "scale.cu")] == ["scale"]
    assert [item.name for item in await ask(editor, "text_document_document_symbol", "gpuemu.toml")] == ["scale"]
    folds = await ask(editor, "text_document_folding_range", "scale.cu")
    assert {(fold.start_line, fold.end_line) for fold in folds} == {(0, 4), (2, 3)}
    folds = await ask(editor, "text_document_folding_range", "gpuemu.toml")
    assert min(fold.start_line for fold in folds) == 0
    params = types.WorkspaceSymbolParams("SCA")
    found = await asyncio.wait_for(editor.client.workspace_symbol_async(params), PATIENCE)
    assert [(item.name, item.location.uri.rpartition("/")[2]) for item in found] == [
        ("scale", "scale.cu"),
        ("scale", "gpuemu.toml"),
    ]


async def test_references_of_a_kernel_are_its_entries_launches_and_reference(editor: Editor):
    write(editor.root, LAUNCHED)
    (editor.root / "ref.py").write_text("import math\n\n" + REFERENCE, encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    editor.open("gpuemu.toml")
    expected = [
        ("gpuemu.toml", 1),
        ("ref.py", 2),
        ("scale.cu", 0),
        ("scale.cu", LAUNCHED.split("\n").index("    scale<<<4, 128>>>(x, y, 512);")),
    ]
    assert await _references(editor, "scale.cu", 0, GOOD.index("scale") + 1) == expected
    assert await _references(editor, "scale.cu", expected[-1][1], 6) == expected
    assert await _references(editor, "gpuemu.toml", 1, 10) == expected
    assert await _references(editor, "scale.cu", 2, 9) == []


async def test_values_are_offered_and_replace_what_was_typed(editor: Editor):
    write(editor.root)
    await editor.start()
    text = TOML + '\n[[kernels]]\nname = "b"\nsource = "sc'
    editor.open("gpuemu.toml", text)
    lines = text.split("\n")
    position = types.Position(len(lines) - 1, len(lines[-1]))
    (item,) = await ask(editor, "text_document_completion", "gpuemu.toml", position=position)
    assert item.label == "scale.cu" and item.text_edit.new_text == "scale.cu"
    assert item.text_edit.range.start.character == len('source = "')


STRUCT = """\
struct Params { const float* x; float* y; float in; int n; };
__global__ void scale(Params p, float factor) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.n) p.y[i] = factor * p.x[i] + p.in;
}
"""


async def test_arguments_and_fields_of_structs_are_offered_and_explained(editor: Editor):
    (editor.root / "scale.cu").write_text(STRUCT, encoding="utf-8")
    await editor.start()
    text = '[[kernels]]\nname = "scale"\nsource = "scale.cu"\n[kernels.args]\np.n = "n"\np.x = { in = ["n"] }\np.'
    editor.open("gpuemu.toml", text)
    items = await ask(editor, "text_document_completion", "gpuemu.toml", position=types.Position(6, 2))
    assert {(item.label, item.detail) for item in items} == {
        ("p.y", "float*"),
        ('"p.in"', "float"),
        ("factor", "float"),
    }
    assert all(item.text_edit.range.start == types.Position(6, 0) for item in items)
    hover = types.HoverParams(types.TextDocumentIdentifier(editor.uri("gpuemu.toml")), types.Position(5, 2))
    shown = await asyncio.wait_for(editor.client.text_document_hover_async(hover), PATIENCE)
    assert "A struct that is passed by value" in shown.contents.value


async def test_a_kernel_that_takes_a_struct_is_registered_field_by_field(editor: Editor):
    (editor.root / "scale.cu").write_text(STRUCT, encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    (hint,) = [item for item in editor.last("scale.cu").diagnostics if item.code == "engine/not-executed"]
    actions = await editor.actions("scale.cu", hint)
    (title,) = [title for title in actions if title.startswith("Register scale in gpuemu.toml")]
    editor.apply((await editor.resolve(actions[title])).edit)
    written = (editor.root / "gpuemu.toml").read_text(encoding="utf-8")
    assert 'p.x = { in = ["n"] }' in written and '"p.in" = 1.0' in written and 'p.n = "n"' in written
    reference = editor.root / "ref_scale.py"
    formula = 'inputs["factor"] * inputs["x"] + inputs["in"]'
    reference.write_text(reference.read_text().replace("np.zeros((n,))", formula), encoding="utf-8")
    await editor.command("gpuemu.check", editor.uri("scale.cu"))
    await editor.idle()
    assert not editor.last("scale.cu").diagnostics and editor.found("gpuemu.toml") == []


async def test_a_header_that_is_not_found_is_reported_on_its_include(editor: Editor):
    write(editor.root, '#include "my_kernels_common.h"\n' + GOOD)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    (warning,) = editor.last("scale.cu").diagnostics
    assert (warning.code, warning.severity) == ("compile/missing-header", types.DiagnosticSeverity.Warning)
    assert (warning.range.start.line, warning.range.end.line) == (0, 0)
    (editor.root / "my_kernels_common.h").write_text("#pragma once\n", encoding="utf-8")
    editor.save("scale.cu", '#include "my_kernels_common.h"\n' + GOOD)
    await editor.until(lambda: not editor.last("scale.cu").diagnostics)


async def test_ways_to_compare_an_output_are_offered(editor: Editor):
    write(editor.root)
    await editor.start()
    text = TOML + '\n[[kernels]]\nname = "b"\n[kernels.args]\nws = { out = ["n"], compare = '
    editor.open("gpuemu.toml", text)
    lines = text.split("\n")
    position = types.Position(len(lines) - 1, len(lines[-1]))
    items = await ask(editor, "text_document_completion", "gpuemu.toml", position=position)
    assert {item.text_edit.new_text for item in items} == {"true", "false", '"sorted"', '"set"'}


async def test_a_misspelt_name_is_corrected_by_a_quick_fix(editor: Editor):
    write(editor.root)
    await editor.start()
    typo = TOML.replace("[kernels.launch]", "[kernels.tolerances]\nflot32 = 1e-3\n[kernels.launch]")
    typo = typo.replace("reference = ", "refernce = ")
    (editor.root / "gpuemu.toml").write_text(typo, encoding="utf-8")
    editor.open("gpuemu.toml")
    await editor.until(lambda: len(editor.found("gpuemu.toml")) == 2)
    titles = set()
    while editor.found("gpuemu.toml"):
        count = len(editor.found("gpuemu.toml"))
        actions = await editor.actions("gpuemu.toml", editor.found("gpuemu.toml")[0])
        (title,) = [title for title in actions if title.startswith("Change to")]
        titles.add(title)
        editor.apply(actions[title].edit)
        await editor.until(lambda count=count: len(editor.found("gpuemu.toml")) < count)
    assert titles == {"Change to 'reference'", "Change to 'float32'"}
    assert (editor.root / "gpuemu.toml").read_text(encoding="utf-8") == typo.replace("refernce", "reference").replace(
        "flot32", "float32"
    )


async def test_a_client_without_virtual_documents_is_shown_a_file(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu")
    answer = await editor.command("gpuemu.showArtifact", editor.uri("scale.cu"), "scale", "ptx")
    assert ".visible .entry scale" in Path(answer["path"]).read_text(encoding="utf-8")
    await editor.until(lambda: any(answer["path"] in item.message for item in editor.client.messages))


async def test_the_status_counts_failing_kernels_and_says_restricted(editor: Editor):
    write(editor.root, GOOD.replace("2.0f", "2.5f"))
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    await editor.until(lambda: editor.statuses[-1].message == "1 kernel fails.")
    assert editor.statuses[-1].failing == 1 and editor.statuses[-1].health == "ok"


async def test_the_log_says_what_was_started_and_each_check_with_its_result(editor: Editor):
    write(editor.root, GOOD.replace("2.0f", "2.5f"))
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    log = [item.message for item in editor.client.log_messages]
    await editor.until(lambda: any(item.message.startswith("Ready: ") for item in editor.client.log_messages))
    (ready,) = [item.message for item in editor.client.log_messages if item.message.startswith("Ready: ")]
    assert f"gpuemu-lsp {__version__} started for {editor.root}" in log[0] and sys.executable in log[0]
    assert re.match(r"Ready: executor emulator, \d+ workers, .*NVRTC \d+", ready)
    assert f"Project {editor.root}/gpuemu.toml: 1 kernels." in log
    check = log.index(f"Check of {editor.root}/scale.cu: scale.")
    (result,) = [line for line in log[check:] if line.startswith("scale: ")]
    assert re.fullmatch(r"scale: failed, \d+ of \d+ cases passed, \d+\.\d\d s, numeric/tolerance-exceeded", result)
    assert all(item.type == types.MessageType.Info for item in editor.client.log_messages)


async def test_restricted_mode_is_part_of_the_status(editor: Editor):
    write(editor.root)
    await editor.start(trusted=False)
    await editor.until(lambda: bool(editor.statuses) and bool(editor.statuses[-1].restricted))
    assert "not run" in editor.statuses[-1].message
