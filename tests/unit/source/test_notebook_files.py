"""Notebooks on disk: the sources that their cells are, and the places of these in the file."""

from __future__ import annotations

import json

import pytest

from gpuemu_lsp.engine.findings import Place, Position, Range, Related, Severity
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.notebooks.files import NotebookError, read_notebook

PYTHON = 'import cupy as cp\nname = "é\\n\\\\ \\"q\\" 𝄞" # ü\n%timeit 1\nx = !ls\n'
CUDA = "%%cuda\n__global__ void k(float* y) {\n\ty[0] = 1; // é\n}"
CELLS = [("markdown", "# é\n"), ("code", PYTHON), ("code", ""), ("code", CUDA), ("code", "%%bash\nls\n")]


def notebook_text(cells=CELLS, as_lists=True, language="python", **options):
    made = [
        {"cell_type": kind, "metadata": {}, "source": source.splitlines(True) if as_lists else source}
        for kind, source in cells
    ]
    metadata = {"kernelspec": {"language": language}} if language else {}
    return json.dumps({"cells": made, "metadata": metadata, "nbformat": 4, "nbformat_minor": 5}, **options)


@pytest.mark.parametrize("as_lists", [True, False])
@pytest.mark.parametrize(
    "options", [{"indent": 1}, {}, {"indent": 1, "ensure_ascii": False}, {"separators": (",", ":")}]
)
def test_each_character_of_a_cell_has_its_place_in_the_file(as_lists, options):
    """As Jupyter writes it, on one line, with escapes of other alphabets, and with a cell as one string."""
    text = notebook_text(as_lists=as_lists, **options)
    notebook = read_notebook("/n.ipynb", text)
    raw = [line.encode() for line in text.split("\n")]
    module, cuda = notebook.documents
    assert module.text.count("\n") == PYTHON.count("\n") + 4  # an empty cell and one of another language follow
    for document, own in ((module, PYTHON.split("\n")[:2]), (cuda, CUDA.split("\n"))):
        for line, code in enumerate(own):
            if code.startswith("%%"):
                continue  # the text has an empty line
            for index, sign in enumerate(code):
                start = Position(line, len(code[:index].encode()))
                place = Place(document.path, Range(start, start))
                found = notebook.located(make("memory/out-of-bounds", "", place)).place
                assert found.path == "/n.ipynb"
                there = raw[found.range.start.line][found.range.start.column :].decode()
                assert there.startswith((sign, json.dumps(sign)[1:-1]))


def test_a_finding_says_its_cell_and_keeps_other_places():
    notebook = read_notebook("/n.ipynb", notebook_text(indent=1))
    inside = Place(notebook.documents[1].path, Range.of(2, 1, 2, 5))
    outside = Place("/other.cuh", Range.of(0, 0, 0, 1))
    finding = make("memory/out-of-bounds", "", inside)
    given = notebook.located(
        make("memory/shared-race", "", inside, related=(Related(outside, ""), Related(inside, "")), data={"count": 2})
    )
    assert given.severity is Severity.ERROR
    assert given.data == {"count": 2, "cell": 4, "cell_line": 3}
    assert [one.place.path for one in given.related] == ["/other.cuh", "/n.ipynb"]
    assert notebook.located(make("memory/out-of-bounds", "", outside)).place == outside
    assert notebook.located(finding).place.range.end.column > notebook.located(finding).place.range.start.column


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("", "not JSON"),
        ("{", "ends within a value"),
        ('{"cells" []}', "Expecting ':'"),
        ('{"cells": [1 2]}', "Expecting ','"),
        ("[" * 100_000, "not JSON"),
        ("{}", "not a notebook of format 4"),
        (json.dumps({"worksheets": [], "nbformat": 3}), "not a notebook of format 4"),
        (notebook_text(language="julia"), "cells in julia"),
    ],
)
def test_what_is_not_such_a_notebook_says_why(text, says):
    with pytest.raises(NotebookError, match=says):
        read_notebook("/n.ipynb", text)


def test_a_notebook_without_metadata_or_cells_is_empty():
    assert read_notebook("/n.ipynb", '{"nbformat": 4}').documents[0].text == ""
    assert read_notebook("/n.ipynb", notebook_text(language="")).documents[0].text.startswith("import cupy")
