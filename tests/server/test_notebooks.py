"""Kernels in the cells of notebooks: results in their cell, for strings, `%%cuda` cells and edits of other cells."""

from __future__ import annotations

import asyncio

import pytest
from lsprotocol import types
from support.lsp_editor import PATIENCE, Editor
from support.notebook import Notebook

IMPORTS = "%matplotlib inline\nimport cupy as cp\n!ls"
STRING = '''\
# A kernel in a string
scale = cp.RawKernel(r"""
extern "C" __global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        y[i] = 2.0f * x[i];
}
""", "scale")


def run(x, y):
    scale(((x.size + 255) // 256,), (256,), (x, y, x.size))
'''
CUDA = """\
%%cuda
__global__ void add(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n)
        y[i] += x[i];
}
void run(const float* x, float* y, int n) { add<<<(n + 255) / 256, 256>>>(x, y, n); }
"""
PLAIN = "%%bash\n__global__ is a word"


OUT_OF_BOUNDS = "memory/out-of-bounds"


async def test_findings_are_in_their_cells(editor: Editor) -> None:
    await editor.start()
    notebook = Notebook(editor, [IMPORTS, PLAIN, STRING, CUDA])
    imports, plain, string, cuda = notebook.cells
    await editor.idle()
    assert {rule for rule, _ in notebook.errors(string)} == {OUT_OF_BOUNDS}
    assert {line for _, line in notebook.errors(string)} == {5}
    assert set(notebook.errors(cuda)) == {(OUT_OF_BOUNDS, 4)}
    assert not notebook.errors(imports) and not notebook.errors(plain)
    assert all(one.uri in notebook.cells for one in editor.published if one.diagnostics)

    # A line above moves what was found; a cell that goes takes its lines with it.
    notebook.edit(0, IMPORTS + "\nimport numpy\n")
    notebook.edit(2, "# Another line\n" + STRING)
    await editor.idle()
    assert {line for _, line in notebook.errors(string)} == {6}
    notebook.remove(1)
    notebook.save()
    await editor.idle()
    assert {line for _, line in notebook.errors(string)} == {6}

    notebook.edit(1, STRING.replace("<=", "<"))
    notebook.edit(2, CUDA.replace("<=", "<"))
    notebook.save()
    await editor.idle()
    assert not notebook.errors(string) and not notebook.errors(cuda)


async def test_requests_about_a_cell_are_answered_about_it(editor: Editor) -> None:
    await editor.start()
    notebook = Notebook(editor, [IMPORTS, STRING, CUDA])
    await editor.idle()
    client = editor.client

    async def hover(uri: str, line: int, character: int) -> str:
        params = types.HoverParams(types.TextDocumentIdentifier(uri), types.Position(line, character))
        found = await asyncio.wait_for(client.text_document_hover_async(params), PATIENCE)
        return found.contents.value if found is not None else ""

    assert "registers" in await hover(notebook.cells[1], 2, 30)
    assert "registers" in await hover(notebook.cells[2], 1, 18)
    assert not await hover(notebook.cells[0], 2, 2)
    lenses = [
        await client.text_document_code_lens_async(types.CodeLensParams(types.TextDocumentIdentifier(uri)))
        for uri in notebook.cells
    ]
    assert [sorted({lens.range.start.line for lens in found or []}) for found in lenses] == [[], [2], [1]]


async def test_a_closed_notebook_leaves_nothing(editor: Editor) -> None:
    await editor.start()
    notebook = Notebook(editor, [IMPORTS, STRING])
    await editor.idle()
    assert notebook.errors(notebook.cells[1])
    notebook.close()
    await editor.idle()
    assert not notebook.errors(notebook.cells[1])


@pytest.mark.parametrize("text", ["", "\n\n", "%%cuda", "%%unknown\n%%cuda", "?", "x = !ls\nprint(x)", "def f():"])
async def test_unusual_cells_end_nothing(editor: Editor, text: str) -> None:
    await editor.start()
    notebook = Notebook(editor, [text, "import cupy as cp", STRING])
    await editor.idle()
    notebook.edit(0, text + "\n" + text)
    notebook.save()
    await editor.idle()
    assert set(notebook.errors(notebook.cells[2])) == {(OUT_OF_BOUNDS, 5)} or text == "def f():"


@pytest.mark.parametrize(
    ("language", "text", "line"), [("cuda-cpp", CUDA.partition("\n")[2], 3), ("python", STRING, 5)]
)
async def test_a_text_that_was_never_saved_is_checked_while_it_is_typed(
    editor: Editor, language: str, text: str, line: int
) -> None:
    await editor.start()
    uri = "untitled:Untitled-1"
    text = "import cupy as cp\n" + text if language == "python" else text
    line += language == "python"
    editor.client.text_document_did_open(
        types.DidOpenTextDocumentParams(
            types.TextDocumentItem(uri, language, 1, "// empty" if line == 3 else "# empty")
        )
    )

    async def type_text(version: int, text: str) -> list[tuple[str, int]]:
        identifier = types.VersionedTextDocumentIdentifier(version, uri)
        change = types.TextDocumentContentChangeWholeDocument(text)
        editor.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, [change]))
        await editor.idle()
        last = next(one for one in reversed(editor.published) if one.uri == uri)
        assert last.version == version
        return [(str(one.code), one.range.start.line) for one in last.diagnostics if one.severity == 1]

    assert set(await type_text(2, text)) == {(OUT_OF_BOUNDS, line)}
    assert await type_text(3, text.replace("<=", "<")) == []
    assert not list(editor.root.iterdir())
