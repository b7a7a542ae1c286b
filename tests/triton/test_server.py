"""Registered Triton kernels in the language server: at their places in the `.py`, next to a Python server."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
import pytest_asyncio
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import make_test_lsp_client
from support.lsp_editor import COMMAND, PATIENCE, Editor, attach
from support.notebook import Notebook

SCALE = """\
import triton
import triton.language as tl


def helper(y):
    return y


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    value = tl.load(x + i, mask=i < n, other=0.0)
    tl.store(y + i, 2.0 * value, mask=i < n)


def reference(inputs):
    return 2.0 * inputs["x"]
"""
WRONG = SCALE.replace("2.0 * value, mask=i < n", "2.0 * value, mask=i <= n")
NUMERIC = SCALE.replace("2.0 * value", "2.5 * value")
CONFIG = """\
[[kernels]]
name = "scale"
source = "model.py"
reference = "model.py:reference"
[kernels.dims]
n = { min = 1, max = 300 }
[kernels.args]
x = { in = ["n"] }
y = { out = ["n"] }
n = "n"
[kernels.constexprs]
BLOCK = 64
[kernels.launch]
grid = ["ceil_div(n, 64)"]
num_warps = 2
"""
DECORATOR_LINE, NAME_LINE, STORE_LINE = 8, 9, 12


@pytest_asyncio.fixture
async def editor(tmp_path, monkeypatch):
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path / ".cache"))
    client = make_test_lsp_client()
    editor = Editor(client, tmp_path)
    attach(editor)
    await client.start_io(*COMMAND)
    yield editor
    await asyncio.wait_for(client.shutdown_session(), PATIENCE)
    await client.stop()
    assert editor.violations == []


def write(editor: Editor, text: str, config: str | None = CONFIG) -> None:
    (editor.root / "model.py").write_text(text, encoding="utf-8")
    if config is not None:
        (editor.root / "gpuemu.toml").write_text(config, encoding="utf-8")


async def lenses(editor: Editor) -> list[types.CodeLens]:
    where = types.TextDocumentIdentifier(editor.uri("model.py"))
    return list(await editor.client.text_document_code_lens_async(types.CodeLensParams(where)) or ())


async def test_a_wrong_mask_is_shown_on_its_line_until_it_is_fixed(editor: Editor):
    write(editor, WRONG)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    (found,) = editor.found("model.py")
    assert (found.code, found.source, found.range.start.line) == ("memory/out-of-bounds", "gpuemu", STORE_LINE)
    assert found.data["kernel"] == "scale"
    hover = await editor.hover("model.py", NAME_LINE, 5)
    assert "**scale**" in hover and "FAILED" in hover
    assert (
        "specialisation: BLOCK = 64, x, y divisible by 16, num_warps = 2, num_stages = 3, 0 B of shared memory" in hover
    )
    (row,) = [line for line in hover.split("\n") if line.startswith("| sm_80 |")]
    registers, *_, occupancy = [cell.strip() for cell in row.strip("|").split("|")][1:]
    assert 0 < int(registers) < 64 and "at 64 threads" in occupancy
    shown = await lenses(editor)
    assert shown[0].command.title.startswith("gpuemu: FAILED")
    of_run = [lens for lens in shown if lens.command.command == "gpuemu.run"]
    assert {lens.range.start.line for lens in shown if lens not in of_run} == {DECORATOR_LINE}
    assert [lens.range.start.line for lens in of_run] == [0]
    where = types.TextDocumentIdentifier(editor.uri("model.py"))
    assert not await editor.client.text_document_document_symbol_async(types.DocumentSymbolParams(where))

    # Typing executes nothing of the module: the findings of the last check move, and are marked.
    start = types.Position(0, 0)
    editor.change("model.py", types.TextDocumentContentChangePartial(types.Range(start, start), "x = 1 / 0\n"))
    await editor.idle()
    (moved,) = editor.found("model.py")
    assert moved.range.start.line == STORE_LINE + 1 and moved.data["stale"]

    editor.save("model.py", SCALE)
    await editor.idle()
    assert editor.found("model.py") == []
    tests = (await editor.ask("gpuemu/discoverTests", {}))["tests"]
    assert [(one["kind"], one["label"]) for one in tests] == [
        ("file", "model.py"),
        ("kernel", "scale"),
        ("dtype", "float32"),
    ]


async def test_an_error_of_the_compiler_is_on_its_line(editor: Editor):
    write(editor, SCALE.replace("2.0 * value,", "2.0 * valeu,"))
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    (found,) = editor.found("model.py")
    assert (found.code, found.range.start.line) == ("compile/error", STORE_LINE) and "valeu" in found.message


async def test_a_wrong_result_is_ignored_by_a_comment_of_python(editor: Editor):
    write(editor, NUMERIC)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    (found,) = editor.found("model.py")
    assert (found.code, found.range.start.line) == ("numeric/tolerance-exceeded", STORE_LINE)
    actions = await editor.actions("model.py", found)
    (ignored,) = [one for title, one in actions.items() if title.startswith("Ignore")]
    editor.apply((await editor.resolve(ignored)).edit)
    text = (editor.root / "model.py").read_text(encoding="utf-8")
    assert "mask=i < n)  # gpuemu: ignore[numeric/tolerance-exceeded]\n" in text
    await editor.idle()
    assert editor.found("model.py") == []


async def test_ptx_has_the_lines_of_the_py(editor: Editor):
    write(editor, SCALE)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    where = {"textDocument": {"uri": editor.uri("model.py")}, "kernel": "scale", "form": "ptx"}
    artifact = await editor.ask("gpuemu/artifact", where)
    rows = artifact["text"].split("\n")
    stores = [row for row, line in enumerate(rows) if "st.global" in line]
    lines = {entry["line"] for entry in artifact["map"] for row in stores if entry["first"] <= row <= entry["last"]}
    assert lines == {STORE_LINE}


@pytest.mark.parametrize("registered", [True, False])
async def test_an_untrusted_folder_imports_nothing(editor: Editor, registered: bool):
    touch = "import pathlib\n\npathlib.Path(__file__).with_name('imported').touch()\n"
    launched = SCALE + "\n\ndef run(x, y, n):\n    scale[(1,)](x, y, n, 64)\n"
    write(editor, touch + launched, CONFIG if registered else None)
    await editor.start(trusted=False)
    editor.open("model.py")
    await editor.idle()
    editor.save("model.py", touch + launched + "\n")
    await editor.idle()
    assert not (editor.root / "imported").exists()
    (found,) = editor.last("model.py").diagnostics
    assert (found.code, found.range.start.line) == ("engine/not-executed", NAME_LINE + 3)
    assert "not trusted" in found.message


@pytest.mark.parametrize(("form", "operation"), [("ttir", "tt.store"), ("ttgir", "ttg.blocked")])
async def test_the_representations_of_the_compiler_have_the_lines_of_the_py(editor: Editor, form: str, operation: str):
    write(editor, SCALE)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    uri = editor.uri("model.py")
    artifact = await editor.ask("gpuemu/artifact", {"textDocument": {"uri": uri}, "kernel": "scale", "form": form})
    assert operation in artifact["text"] and artifact["title"] == f"scale {form.upper()} (sm_80)"
    rows = artifact["text"].split("\n")
    (store,) = [row for row, line in enumerate(rows) if "tt.store" in line]
    assert [one["line"] for one in artifact["map"] if one["first"] <= store <= one["last"]] == [STORE_LINE]
    written = await editor.command("gpuemu.showArtifact", uri, "scale", form)
    for shown in (written["uri"], Path(written["path"]).as_uri()):
        where = types.DefinitionParams(types.TextDocumentIdentifier(shown), types.Position(store, 4))
        found = await editor.client.text_document_definition_async(where)
        assert (found.uri, found.range.start.line) == (uri, STORE_LINE)


async def test_of_an_unregistered_kernel_they_are_those_of_its_launch(editor: Editor):
    write(editor, SCALE + "\n\ndef run(x, y, n):\n    scale[(1,)](x, y, n, 128)\n", None)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    where = {"textDocument": {"uri": editor.uri("model.py")}, "kernel": "scale", "form": "ttir"}
    assert "tensor<128xf32>" in (await editor.ask("gpuemu/artifact", where))["text"]


@pytest.mark.parametrize("form", ["ttir", "ptx"])
async def test_of_an_untrusted_folder_nothing_is_compiled_to_be_shown(editor: Editor, form: str):
    write(editor, "import pathlib\n\npathlib.Path(__file__).with_name('imported').touch()\n" + SCALE)
    await editor.start(trusted=False)
    editor.open("model.py")
    await editor.idle()
    where = {"textDocument": {"uri": editor.uri("model.py")}, "kernel": "scale", "form": form}
    with pytest.raises(JsonRpcException, match="not trusted"):
        await editor.ask("gpuemu/artifact", where)
    with pytest.raises(JsonRpcException, match="not trusted"):
        await editor.command("gpuemu.showArtifact", editor.uri("model.py"), "scale", form)
    await editor.command("gpuemu.check", editor.uri("model.py"))
    await editor.command("gpuemu.fuzz", editor.uri("model.py"), "scale")
    await editor.idle()
    assert not (editor.root / "imported").exists()


async def test_ptx_sass_and_resources_are_those_of_the_compiler(editor: Editor):
    """The emulator orders loads and stores by barriers, which the compiled kernel does not have."""
    write(editor, SCALE)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    where = {"textDocument": {"uri": editor.uri("model.py")}, "kernel": "scale"}
    ptx = await editor.ask("gpuemu/artifact", {**where, "form": "ptx"})
    assert "st.global" in ptx["text"] and "bar.sync" not in ptx["text"]
    hover = await editor.hover("model.py", NAME_LINE, 5)
    header, _, row = [line.split("|") for line in hover.splitlines() if line.startswith("|")]
    assert dict(zip(map(str.strip, header), map(str.strip, row), strict=True))["barriers"] == "0"
    sass = await editor.ask("gpuemu/artifact", {**where, "form": "sass"})
    rows = sass["text"].split("\n")
    stores = [row for row, line in enumerate(rows) if " STG" in line]
    lines = {entry["line"] for entry in sass["map"] for row in stores if entry["first"] <= row <= entry["last"]}
    assert stores and lines == {STORE_LINE} and "BAR.SYNC" not in sass["text"]


async def test_instructions_of_functions_of_triton_are_on_the_line_that_calls_them(editor: Editor):
    write(editor, SCALE.replace("2.0 * value", "2.0 * value / tl.sum(value, axis=0)"))
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    where = {"textDocument": {"uri": editor.uri("model.py")}, "kernel": "scale"}
    for form, shuffle in (("ptx", "shfl.sync"), ("sass", " SHFL")):
        artifact = await editor.ask("gpuemu/artifact", {**where, "form": form})
        rows = [row for row, line in enumerate(artifact["text"].split("\n")) if shuffle in line]
        lines = [one["line"] for row in rows for one in artifact["map"] if one["first"] <= row <= one["last"]]
        assert rows and lines == [STORE_LINE] * len(rows)


IMPORTS = "%load_ext autoreload\nimport torch\nimport triton\nimport triton.language as tl"
TWICE = """\
@triton.jit
def twice(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2 * tl.load(x + i, mask=i < n), mask=i <= n)
"""
LAUNCH = """\
def run(x):
    y, n = torch.empty_like(x), x.numel()
    twice[(triton.cdiv(n, 64),)](x, y, n, BLOCK=64)
    return y
"""


async def test_a_kernel_in_a_cell_of_a_notebook(editor):
    await editor.start()
    notebook = Notebook(editor, [IMPORTS, TWICE, LAUNCH, "run(torch.ones(3, device='cuda')).cpu()"])
    await editor.idle()
    assert notebook.errors(notebook.cells[1]) == [("memory/out-of-bounds", 3)]
    notebook.edit(1, TWICE.replace("<=", "<"))
    notebook.save()
    await editor.idle()
    assert not any(map(notebook.errors, notebook.cells))
