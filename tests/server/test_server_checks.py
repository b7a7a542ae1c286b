"""Open, edit, save: diagnostics on the right lines, gone when fixed, never of an older text."""

from __future__ import annotations

import pytest
from lsprotocol import types
from support.lsp_editor import Editor
from support.server_kernels import GOOD, OUT_OF_BOUNDS, REFERENCE, SPIN, STORE_LINE, TOML, WRONG, write


async def test_wrong_results_are_reported_at_the_store_until_fixed(editor: Editor):
    write(editor.root, WRONG)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    (wrong,) = editor.found("scale.cu")
    assert wrong.code == "numeric/tolerance-exceeded" and wrong.source == "gpuemu"
    assert wrong.range.start.line == STORE_LINE
    assert wrong.data["kernel"] == "scale" and wrong.data["case"].isdigit()
    assert editor.last("scale.cu").version == 1
    editor.save("scale.cu", GOOD)
    await editor.idle()
    assert editor.found("scale.cu") == []
    assert editor.last("scale.cu").version == 2


WAITING_REFERENCE = """\
import pathlib
import time

first = None

def reference(inputs, **kwargs):
    global first
    first = first or inputs["x"].size
    while inputs["x"].size != first and not pathlib.Path(__file__).with_name("go").exists():
        time.sleep(0.01)
    return 2.0 * inputs["x"]
"""


async def test_the_first_error_is_shown_while_other_cases_still_run(editor: Editor):
    write(editor.root, WRONG)
    (editor.root / "ref.py").write_text(WAITING_REFERENCE, encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    await editor.until(lambda: editor.codes("scale.cu") == {"numeric/tolerance-exceeded"})
    assert "FAILED" not in await editor.hover("scale.cu", 0, GOOD.index("scale"))  # no result yet
    (editor.root / "go").touch()
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}
    assert "FAILED" in await editor.hover("scale.cu", 0, GOOD.index("scale"))


async def test_an_out_of_bounds_read_without_any_configuration(editor: Editor):
    (editor.root / "scale.cu").write_text(OUT_OF_BOUNDS, encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    assert "memory/out-of-bounds" in editor.codes("scale.cu")
    assert {item.range.start.line for item in editor.found("scale.cu")} == {STORE_LINE}


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 17), ("utf-16", 11), ("utf-32", 10)])
async def test_columns_are_in_the_negotiated_encoding(editor: Editor, encoding: str, column: int):
    line = "/* 漢字😀 */ q = 0;"
    source = GOOD.replace("    int i", f"{line}\n    int i")
    (editor.root / "k.cu").write_text(source, encoding="utf-8")
    result = await editor.start(encodings=[encoding])
    assert result.capabilities.position_encoding == encoding
    editor.open("k.cu")
    await editor.idle()
    (wrong,) = editor.found("k.cu")
    assert (wrong.code, wrong.range.start) == ("compile/error", types.Position(1, column))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16", "utf-32"])
async def test_every_column_is_in_the_negotiated_encoding(editor: Editor, encoding: str):
    def units(text: str) -> int:
        return len(text.encode(f"{encoding}-le" if encoding != "utf-8" else encoding)) * 8 // int(encoding[4:])

    source = WRONG.replace('extern "C"', '/* 漢字😀 */ extern "C"').replace("        y[i]", "/* 😀é */ y[i]")
    write(editor.root, source.replace("x[i];", "x[i]; // 漢😀"))
    config = TOML.replace('source = "scale.cu"', 'source = "漢😀.cu"  # 漢😀')
    (editor.root / "gpuemu.toml").write_text(config, encoding="utf-8")
    (editor.root / "scale.cu").rename(editor.root / "漢😀.cu")
    await editor.start(encodings=[encoding])
    editor.open("漢😀.cu")
    editor.open("gpuemu.toml")
    await editor.idle()
    lines = (editor.root / "漢😀.cu").read_text(encoding="utf-8").split("\n")
    name = units(lines[0][: lines[0].index("scale")])
    for column, there in ((name - 1, False), (name, True), (name + 5, True), (name + 6, False)):
        assert ("**scale**" in await editor.hover("漢😀.cu", 0, column)) is there
    (wrong,) = editor.found("漢😀.cu")
    assert wrong.range.start == types.Position(STORE_LINE, units("/* 😀é */ "))
    assert "| `y[0]` |" in await editor.hover("漢😀.cu", STORE_LINE, wrong.range.start.character)
    (ignore,) = [item for title, item in (await editor.actions("漢😀.cu", wrong)).items() if title.startswith("Ignore")]
    (change,) = (await editor.resolve(ignore)).edit.document_changes
    assert change.edits[0].range.start == types.Position(STORE_LINE, units(lines[STORE_LINE]))
    where = types.TextDocumentIdentifier(editor.uri("漢😀.cu"))
    lenses = await editor.client.text_document_code_lens_async(types.CodeLensParams(where))
    assert lenses and all(lens.range.start == types.Position(0, 0) for lens in lenses)
    toml = types.TextDocumentIdentifier(editor.uri("gpuemu.toml"))
    link, *_ = await editor.client.text_document_document_link_async(types.DocumentLinkParams(toml))
    assert link.range.end == types.Position(2, units('source = "漢😀.cu"'))
    found = await editor.client.text_document_definition_async(types.DefinitionParams(toml, types.Position(1, 9)))
    assert found.range.start == types.Position(0, name)


async def test_typing_compiles_unsaved_text(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    editor.replace("scale.cu", GOOD.replace("x[i];", "x[i] + nowhere;"))
    await editor.idle()
    assert editor.codes("scale.cu") == {"compile/error"}
    assert editor.last("scale.cu").version == 2
    editor.replace("scale.cu", GOOD)
    await editor.idle()
    assert editor.found("scale.cu") == []


async def test_findings_of_the_last_save_move_with_edits_and_are_marked_stale(editor: Editor):
    write(editor.root, WRONG)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    top = types.Range(types.Position(0, 0), types.Position(0, 0))
    editor.change("scale.cu", types.TextDocumentContentChangePartial(top, "// one 😀\n// two\n"))
    tail = types.Range(types.Position(0, 7), types.Position(0, 9))
    editor.change("scale.cu", types.TextDocumentContentChangePartial(tail, "more"))
    await editor.idle()
    (wrong,) = editor.found("scale.cu")
    assert wrong.code == "numeric/tolerance-exceeded" and wrong.data["stale"] is True
    assert wrong.range.start.line == STORE_LINE + 2
    assert editor.last("scale.cu").version == 3


async def test_a_superseded_check_publishes_nothing_after_a_newer_save(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    editor.save("scale.cu", SPIN)
    await editor.until(lambda: not editor.statuses[-1].quiescent)
    editor.save("scale.cu", GOOD)
    await editor.idle()
    assert editor.found("scale.cu") == []
    assert all(not item.diagnostics for item in editor.published if item.version == 3)


async def test_many_saves_leave_one_result(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu")
    for number in range(50):
        editor.save("scale.cu", WRONG.replace("2.5f", f"2.{number}25f"))
    editor.save("scale.cu", WRONG.replace("2.5f * x[i]", "2.0f * x[i] + nowhere"))
    await editor.idle()
    assert editor.codes("scale.cu") == {"compile/error"}
    started = sum(not status.quiescent for status in editor.statuses)
    assert started < 50


async def test_diagnostics_stay_while_a_new_check_runs(editor: Editor):
    write(editor.root, WRONG)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    before = len(editor.published)
    editor.save("scale.cu", WRONG.replace("2.5f", "3.5f"))
    await editor.idle()
    shown = [item for item in editor.published[before:] if item.uri == editor.uri("scale.cu")]
    assert shown and all(item.diagnostics for item in shown)


async def test_an_invalid_configuration_leaves_the_last_valid_one_in_use(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("gpuemu.toml")
    editor.open("scale.cu")
    await editor.idle()
    editor.save("gpuemu.toml", TOML + "\n[kernels")
    await editor.idle()
    assert editor.codes("gpuemu.toml") == {"config/syntax"}
    editor.save("scale.cu", WRONG)
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}
    editor.save("gpuemu.toml", TOML)
    await editor.idle()
    assert editor.found("gpuemu.toml") == []


async def test_configuration_errors_are_published_while_typing(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("gpuemu.toml")
    editor.replace("gpuemu.toml", TOML.replace("reference =", "referense ="))
    await editor.until(lambda: "config/unknown-key" in editor.codes("gpuemu.toml"))
    (wrong,) = [item for item in editor.found("gpuemu.toml") if item.code == "config/unknown-key"]
    assert wrong.range == types.Range(types.Position(3, 0), types.Position(3, 9))


async def test_saving_a_reference_checks_its_kernels_again(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu")
    editor.open("ref.py")
    await editor.idle()
    assert editor.found("scale.cu") == []
    editor.save("ref.py", REFERENCE.replace("2.0", "3.0"))
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}


async def test_saving_a_header_checks_its_kernels_again(editor: Editor):
    write(editor.root, '#include "factor.h"\n' + GOOD.replace("2.0f", "FACTOR"))
    (editor.root / "factor.h").write_text("#define FACTOR 2.0f\n")
    await editor.start()
    editor.open("scale.cu")
    editor.open("factor.h")
    await editor.idle()
    assert editor.found("scale.cu") == []
    editor.save("factor.h", "#define FACTOR 3.0f\n")
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}


async def test_no_code_of_an_untrusted_workspace_is_executed(editor: Editor):
    write(editor.root, WRONG)
    (editor.root / "ref.py").write_text(
        "from pathlib import Path\nPath(__file__).with_name('ran').touch()\n" + REFERENCE
    )
    await editor.start(trusted=False)
    editor.open("scale.cu")
    await editor.idle()
    assert not (editor.root / "ran").exists() and not (editor.root / ".gpuemu").exists()
    (only,) = editor.found("scale.cu")
    assert only.code == "engine/not-executed" and only.range.start == types.Position(0, GOOD.index("scale"))
    assert [other.location.uri for other in only.related_information] == [editor.uri("gpuemu.toml")]


async def test_saving_the_configuration_checks_its_kernels_again(editor: Editor):
    write(editor.root, WRONG)
    await editor.start()
    editor.open("gpuemu.toml")
    editor.open("scale.cu")
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}
    editor.save("gpuemu.toml", TOML + "[kernels.tolerances]\nfloat32 = 10.0\n")
    await editor.idle()
    assert editor.found("scale.cu") == []


@pytest.mark.parametrize("text", [TOML.replace('reference = "ref.py"', 'reference = "none.py"'), "[[kernels"])
async def test_a_file_with_an_invalid_configuration_is_not_reported_clean(editor: Editor, text: str):
    write(editor.root)
    (editor.root / "gpuemu.toml").write_text(text, encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    assert editor.codes("scale.cu") == {"engine/not-executed"}
    assert editor.found("gpuemu.toml")
    (editor.root / "gpuemu.toml").write_text(TOML, encoding="utf-8")
    editor.open("gpuemu.toml")
    editor.save("gpuemu.toml")
    await editor.idle()
    assert editor.found("scale.cu") == [] and editor.found("gpuemu.toml") == []
    editor.save("gpuemu.toml", TOML.replace('reference = "ref.py"', 'reference = "none.py"'))
    await editor.idle()
    assert editor.codes("scale.cu") == {"engine/not-executed"}
    editor.save("gpuemu.toml", TOML)
    await editor.idle()
    assert editor.found("scale.cu") == []


OPS = '\n[[ops]]\nname = "attention"\nreference = "ref.py"\n'


async def test_an_op_that_did_not_run_is_shown_on_its_name(editor: Editor):
    write(editor.root)
    (editor.root / "gpuemu.toml").write_text(TOML + OPS, encoding="utf-8")
    await editor.start()
    editor.open("gpuemu.toml")
    await editor.idle()
    (shown,) = editor.found("gpuemu.toml")
    line = (TOML + OPS).splitlines().index('name = "attention"')
    assert (shown.code, shown.range.start.line) == ("engine/not-executed", line)
    editor.replace("gpuemu.toml", TOML)
    await editor.idle()
    assert editor.found("gpuemu.toml") == []


BROKEN_REFERENCES = {
    "raises": ("import no_such_module\n" + REFERENCE, "reference/error", 0),
    "wrong shape": (REFERENCE.replace('inputs["x"]', 'inputs["x"][:-1]'), "reference/wrong-shape", 1),
    "exits": (REFERENCE.replace("    return", "    import os\n    os._exit(3)\n    return"), "reference/error", None),
}


@pytest.mark.parametrize("name", BROKEN_REFERENCES)
async def test_a_broken_reference_does_not_make_its_kernel_look_clean(editor: Editor, name: str):
    text, rule, line = BROKEN_REFERENCES[name]
    write(editor.root, WRONG)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}
    editor.open("ref.py")
    editor.save("ref.py", text)
    await editor.until(lambda: "not compared again" in editor.found("scale.cu")[0].message)
    (wrong,) = editor.found("scale.cu")
    assert (wrong.code, wrong.data["stale"]) == ("numeric/tolerance-exceeded", True)
    (hint,) = (item for item in editor.last("scale.cu").diagnostics if item.code == rule)
    assert (hint.severity, hint.range.start.line) == (types.DiagnosticSeverity.Hint, 0)
    if line is not None:
        (broken,) = editor.found("ref.py")
        assert (broken.code, broken.range.start.line) == (rule, line)
        assert broken.severity == types.DiagnosticSeverity.Error
        assert broken.related_information[0].location.uri == editor.uri("gpuemu.toml")
    editor.save("ref.py", REFERENCE)
    await editor.until(lambda: "not compared again" not in editor.found("scale.cu")[0].message)
    assert editor.found("ref.py") == []
    (wrong,) = editor.found("scale.cu")
    assert not wrong.data["stale"] and "not compared again" not in wrong.message


async def test_an_error_in_a_header_is_shown_on_the_include_that_leads_to_it(editor: Editor):
    write(editor.root, '#include "outer.h"\n' + GOOD)
    (editor.root / "outer.h").write_text('#include "inner.h"\n', encoding="utf-8")
    (editor.root / "inner.h").write_text("\n__device__ int f() { return nope; }\n", encoding="utf-8")
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    (shown,) = editor.found("scale.cu")
    assert (shown.code, shown.range.start.line) == ("compile/error", 0)
    assert shown.message.startswith('in included file: identifier "nope" is undefined')
    where = shown.related_information[0].location
    assert (where.uri, where.range.start.line) == (editor.uri("inner.h"), 1)
    (in_header,) = editor.found("inner.h")
    assert in_header.message.startswith("identifier")
    editor.save("scale.cu", GOOD)
    await editor.idle()
    assert editor.found("scale.cu") == editor.found("inner.h") == []


async def test_ten_saves_show_the_same_case_and_mark_older_results_as_stale(editor: Editor):
    """Many sizes fail, and every save changes the code: the case must not change with it."""
    wrong = GOOD.replace("2.0f *", "(n > 129 && i == 3 ? 2.5f : 2.0f) *")
    write(editor.root, wrong)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    (error,) = editor.found("scale.cu")
    cases = [(error.data["case"], error.data["dims"])]
    for turn in range(10):
        before = len(editor.published)
        # A statement of its own, so that the verdict of the last save does not apply.
        statement = f"if (n < -{turn + 2}) y[0] = {turn};"
        editor.save("scale.cu", wrong.replace("    if (i < n)", f"    {statement}\n    if (i < n)"))
        await editor.idle()
        *between, last = [one for one in editor.published[before:] if one.uri == editor.uri("scale.cu")]
        assert all(item.data["stale"] for one in between for item in one.diagnostics)
        (error,) = last.diagnostics
        cases.append((error.data["case"], error.data["dims"]))
        assert error.data["stale"] is False
    assert cases == [cases[0]] * 11


async def test_all_findings_of_a_file_with_many_kernels_are_published_when_its_check_has_ended(editor: Editor):
    text = "".join(OUT_OF_BOUNDS.replace("scale", f"scale_{number}") for number in range(12))
    (editor.root / "many.cu").write_text(text, encoding="utf-8")
    await editor.start()
    editor.open("many.cu")
    await editor.idle()
    length = OUT_OF_BOUNDS.count("\n")
    lines = [length * number + STORE_LINE for number in range(12)]
    assert sorted({item.range.start.line for item in editor.found("many.cu")}) == lines
    editor.save("many.cu", "// a comment\n" + text)
    await editor.idle()
    assert sorted({item.range.start.line for item in editor.found("many.cu")}) == [line + 1 for line in lines]
    assert all(item.data["stale"] is False for item in editor.found("many.cu"))


async def test_kernels_of_headers_are_checked_from_the_source_that_launches_them(editor: Editor):
    """And kernels of a file that the client alone calls CUDA."""
    host = """#include "scale.h"
    void run(const float* from, float* to, int n) {
        float *x, *y;
        cudaMalloc(&x, n * sizeof(float));
        cudaMalloc(&y, n * sizeof(float));
        cudaMemcpy(x, from, n * sizeof(float), cudaMemcpyHostToDevice);
        scale<<<BLOCKS, 1>>>(x, y, n);
        cudaMemcpy(to, y, n * sizeof(float), cudaMemcpyDeviceToHost);
    }
    """
    files = {"scale.h": GOOD.replace("if (i < n) ", ""), "kernel.tpl": OUT_OF_BOUNDS, "plain.h": "int plain();\n"}
    for name, text in {**files, "host.cu": host.replace("BLOCKS", "n + 1")}.items():
        (editor.root / name).write_text(text, encoding="utf-8")
    await editor.start()
    editor.open("host.cu")
    await editor.idle()
    (error,) = [item for item in editor.found("scale.h") if item.severity == types.DiagnosticSeverity.Error]
    assert (error.code, error.range.start.line) == ("memory/out-of-bounds", STORE_LINE)
    for name in ("kernel.tpl", "plain.h"):
        editor.open(name)
    editor.save("host.cu", host.replace("BLOCKS", "n"))
    await editor.idle()
    assert "memory/out-of-bounds" in editor.codes("kernel.tpl")
    assert editor.found("plain.h") == []
    assert "memory/out-of-bounds" not in editor.codes("scale.h")
