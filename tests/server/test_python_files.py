"""Kernels in `.py` files: results at their places in the file, and no word about other Python files."""

from __future__ import annotations

from typing import Any

import pytest
from lsprotocol import types
from support.lsp_editor import Editor

KERNEL = '''\
import cupy as cp

# ü🙂
scale = cp.RawKernel(r"""
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        y[i] = 2.0f * x[i];
}
""", "scale")


def run(x, y):
    scale((x.size + 255) // 256, 256, (x, y, x.size))
'''
GOOD = KERNEL.replace("i <= n", "i < n")
NAME_LINE, STORE_LINE = 4, 7
PLAIN = '"""Nothing of interest: `jit` and __global__ in words."""\n\nfrom functools import cache\n\n\n@cache\ndef f(x):\n    return x\n'


def write(editor: Editor, text: str, name: str = "model.py") -> None:
    (editor.root / name).write_text(text, encoding="utf-8")


async def asked(editor: Editor, name: str) -> dict[str, Any]:
    """Return the answers to the requests that an editor sends for an open document."""
    client, where = editor.client, types.TextDocumentIdentifier(editor.uri(name))
    whole = types.Range(types.Position(0, 0), types.Position(100, 0))
    return {
        "lenses": await client.text_document_code_lens_async(types.CodeLensParams(where)),
        "symbols": await client.text_document_document_symbol_async(types.DocumentSymbolParams(where)),
        "folds": await client.text_document_folding_range_async(types.FoldingRangeParams(where)),
        "hints": await client.text_document_inlay_hint_async(types.InlayHintParams(where, whole)),
        "links": await client.text_document_document_link_async(types.DocumentLinkParams(where)),
        "completion": await client.text_document_completion_async(types.CompletionParams(where, types.Position(5, 2))),
        "definition": await client.text_document_definition_async(types.DefinitionParams(where, types.Position(6, 5))),
    }


async def test_an_out_of_bounds_access_is_shown_at_its_line_and_column_of_the_py(editor: Editor):
    write(editor, GOOD)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    assert editor.found("model.py") == []
    editor.save("model.py", KERNEL)
    await editor.idle()
    lines = KERNEL.split("\n")
    errors = editor.found("model.py")
    assert {item.code for item in errors} == {"memory/out-of-bounds"}
    assert {item.range.start.line for item in errors} == {STORE_LINE}
    assert {item.range.start.character for item in errors} == {lines[STORE_LINE].index("y[i]")}
    assert errors[0].data["kernel"] == "scale"
    hover = await editor.hover("model.py", NAME_LINE, lines[NAME_LINE].index("scale("))
    assert "**scale**" in hover and "registers" in hover and "FAILED" in hover
    answers = await asked(editor, "model.py")
    assert {lens.range.start.line for lens in answers["lenses"]} == {NAME_LINE}
    titles = [lens.command.title for lens in answers["lenses"]]
    assert titles[0].startswith("gpuemu: FAILED") and "Show PTX" in titles
    editor.save("model.py", GOOD)
    await editor.idle()
    assert editor.found("model.py") == []


async def test_python_without_kernels_is_left_to_python_servers(editor: Editor):
    write(editor, PLAIN, "plain.py")
    await editor.start()
    editor.open("plain.py")
    await editor.idle()
    editor.replace("plain.py", PLAIN + "\n\nx = 1\n")
    editor.save("plain.py", PLAIN + "\n\nx = 1  # RawKernel\n")
    await editor.idle()
    assert await editor.hover("plain.py", 6, 4) == ""
    assert not any((await asked(editor, "plain.py")).values())
    tests = await editor.ask("gpuemu/discoverTests", {})
    assert tests["tests"] == []
    assert editor.published == []


@pytest.mark.parametrize("saved", [True, False])
async def test_a_first_kernel_in_an_open_file(editor: Editor, saved: bool):
    write(editor, PLAIN)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    if saved:
        editor.save("model.py", KERNEL)
    else:
        editor.replace("model.py", KERNEL.replace("int i =", "int i = nowhere +"))
    await editor.idle()
    assert editor.codes("model.py") == ({"memory/out-of-bounds"} if saved else {"compile/error"})
    editor.save("model.py", PLAIN)
    await editor.idle()
    assert not editor.last("model.py").diagnostics


async def test_kernels_of_one_name_in_two_strings_have_results_of_their_own(editor: Editor):
    second = GOOD.split("\n\n\n")[0].replace("import cupy as cp\n", "").replace("scale = cp", "again = cp")
    write(editor, KERNEL + second)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    assert {item.range.start.line for item in editor.found("model.py")} == {STORE_LINE}
    lenses = (await asked(editor, "model.py"))["lenses"]
    titles = {lens.range.start.line: lens.command.title for lens in lenses if lens.command.title.startswith("gpuemu")}
    first, other = sorted(titles)
    assert first == NAME_LINE and "FAILED" in titles[first] and "clean" in titles[other]


async def test_code_that_is_known_only_at_run_time_is_a_hint(editor: Editor):
    write(editor, "import cupy as cp\n\nf = cp.RawKernel(open('k.cu').read(), 'f')\n")
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    (hint,) = editor.last("model.py").diagnostics
    assert (hint.code, hint.severity, hint.range.start.line) == (
        "engine/not-executed",
        types.DiagnosticSeverity.Hint,
        2,
    )
    editor.save("model.py", KERNEL)
    await editor.idle()
    assert editor.codes("model.py") == {"memory/out-of-bounds"}


@pytest.mark.parametrize("trusted", [True, False])
async def test_nothing_of_the_file_is_imported(editor: Editor, trusted: bool):
    touch = "import pathlib\n\npathlib.Path(__file__).with_name('imported').touch()\n"
    (editor.root / "cupy.py").write_text(touch, encoding="utf-8")
    write(editor, touch + KERNEL)
    await editor.start(trusted=trusted)
    editor.open("model.py")
    await editor.idle()
    assert not (editor.root / "imported").exists()
    assert editor.codes("model.py") == {"memory/out-of-bounds" if trusted else "engine/not-executed"}
    hover = await editor.hover("model.py", NAME_LINE + 3, KERNEL.split("\n")[NAME_LINE].index("scale("))
    assert "registers" in hover
