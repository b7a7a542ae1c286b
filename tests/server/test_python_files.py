"""Kernels in `.py` files: results at their places in the file, and no word about other Python files."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
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


TOML = """\
[[kernels]]
name = "scale"
source = "model.py"
reference = "ref.py"

[kernels.dims]
n = { min = 1, max = 600 }
[kernels.args]
x = { in = ["n"] }
y = { out = ["n"] }
n = "n"
[kernels.launch]
grid = "ceil_div(n, 128)"
block = 128
"""
WRONG = GOOD.replace("2.0f * x[i]", "2.5f * x[i]")


def write_project(editor: Editor, text: str) -> None:
    (editor.root / "gpuemu.toml").write_text(TOML, encoding="utf-8")
    (editor.root / "ref.py").write_text("def reference(inputs, **_):\n    return 2.0 * inputs['x']\n", encoding="utf-8")
    write(editor, text)


async def test_a_registered_kernel_in_a_string_is_minimised_reproduced_and_suppressed(editor: Editor):
    write_project(editor, WRONG)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    (wrong,) = editor.found("model.py")
    assert (wrong.code, wrong.range.start.line) == ("numeric/tolerance-exceeded", STORE_LINE)
    actions = await editor.actions("model.py", wrong)

    (todo,) = [one.command for title, one in actions.items() if title.startswith("Reproduce failure")]
    script = Path((await editor.command(todo.command, *todo.arguments))["path"])
    ran = subprocess.run([sys.executable, str(script)], capture_output=True, text=True, check=False)
    assert ran.returncode == 1 and f"case {wrong.data['case']}" in ran.stdout, ran

    (todo,) = [one.command for title, one in actions.items() if title.startswith("Minimize")]
    assert (await editor.command(todo.command, *todo.arguments))["queued"] == 1
    await editor.idle()
    (smaller,) = editor.found("model.py")
    assert smaller.data["dims"] == {"n": 1} and smaller.range == wrong.range

    (ignored,) = [one for title, one in actions.items() if title.startswith("Ignore")]
    editor.apply((await editor.resolve(ignored)).edit)
    text = (editor.root / "model.py").read_text(encoding="utf-8")
    assert "        y[i] = 2.5f * x[i];  // gpuemu: ignore[numeric/tolerance-exceeded]\n" in text
    await editor.idle()
    assert editor.found("model.py") == []
    editor.save("model.py", text.replace("2.5f", "2.0f"))
    await editor.idle()
    (unused,) = editor.last("model.py").diagnostics
    assert (unused.code, unused.range.start.line) == ("config/unused-suppression", STORE_LINE)
    removal = (await editor.actions("model.py", unused))["Remove this suppression"]
    editor.apply(removal.edit)
    await editor.idle()
    assert (editor.root / "model.py").read_text(encoding="utf-8") == GOOD


async def test_tests_are_file_kernel_and_dtype_at_the_lines_of_the_py(editor: Editor):
    write_project(editor, WRONG)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    tests = (await editor.ask("gpuemu/discoverTests", {}))["tests"]
    assert [(one["kind"], one["label"]) for one in tests][:3] == [
        ("file", "model.py"),
        ("kernel", "scale"),
        ("dtype", "float32"),
    ]
    kernel, case = tests[1], tests[3]
    assert kernel["range"]["start"]["line"] == NAME_LINE and case["kind"] == "case"
    assert case["range"]["start"]["line"] == STORE_LINE
    await editor.ask("gpuemu/runTests", {"runId": "r", "include": [kernel["id"]]})
    await editor.idle()
    states = [one["state"] for one in editor.received("gpuemu/testState") if one["runId"] == "r"]
    assert "failed" in states and editor.received("gpuemu/testsEnded") == [{"runId": "r", "cancelled": False}]


async def test_ptx_has_the_lines_of_the_py(editor: Editor):
    write(editor, KERNEL)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    where = {"textDocument": {"uri": editor.uri("model.py")}, "kernel": "scale", "form": "ptx"}
    artifact = await editor.ask("gpuemu/artifact", where)
    rows = artifact["text"].split("\n")
    stores = [row for row, line in enumerate(rows) if "st.global" in line]
    lines = {entry["line"] for entry in artifact["map"] for row in stores if entry["first"] <= row <= entry["last"]}
    assert lines == {STORE_LINE}


async def test_edits_in_the_string_are_compiled_and_findings_move_with_their_line(editor: Editor):
    write(editor, KERNEL)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    start = types.Position(1, 0)
    version = editor.change(
        "model.py", types.TextDocumentContentChangePartial(types.Range(start, start), "\n\nx = 1\n")
    )
    await editor.idle()
    (moved,) = editor.found("model.py")
    assert moved.range.start.line == STORE_LINE + 3 and moved.data["stale"]
    assert editor.last("model.py").version == version
    at = types.Position(STORE_LINE + 3, 8)
    editor.change("model.py", types.TextDocumentContentChangePartial(types.Range(at, at), "nowhere; "))
    await editor.idle()
    assert {(one.code, one.range.start.line) for one in editor.found("model.py")} == {
        ("compile/error", STORE_LINE + 3),
        ("memory/out-of-bounds", STORE_LINE + 3),
    }


@pytest.mark.parametrize(("encoding", "column"), [("utf-8", 25), ("utf-16", 19), ("utf-32", 18)])
async def test_columns_behind_other_characters_of_the_py(editor: Editor, encoding: str, column: int):
    write(editor, KERNEL.replace("        y[i] =", "        /* 漢字😀 */ y[i] ="))
    await editor.start(encodings=[encoding])
    editor.open("model.py")
    await editor.idle()
    (found,) = editor.found("model.py")
    assert found.range.start == types.Position(STORE_LINE, column)


async def test_symbols_references_and_definition_of_a_kernel_in_a_string(editor: Editor):
    write_project(editor, GOOD)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    client, where = editor.client, types.TextDocumentIdentifier(editor.uri("model.py"))
    (symbol,) = await client.text_document_document_symbol_async(types.DocumentSymbolParams(where))
    assert symbol.name == "scale"
    name = types.Position(NAME_LINE, KERNEL.split("\n")[NAME_LINE].index("scale("))
    found = await client.text_document_definition_async(types.DefinitionParams(where, name))
    assert found.uri == editor.uri("gpuemu.toml")
    context = types.ReferenceContext(include_declaration=False)
    places = await client.text_document_references_async(types.ReferenceParams(context, where, name))
    assert {place.uri for place in places} == {editor.uri("gpuemu.toml"), editor.uri("ref.py")}


async def test_registration_of_a_kernel_in_a_string(editor: Editor):
    write(editor, GOOD)
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    answer = await editor.command("gpuemu.register", editor.uri("model.py"), "scale")
    await editor.idle()
    assert 'source = "model.py' in (editor.root / "gpuemu.toml").read_text(encoding="utf-8")
    assert answer["reference"].endswith("ref_scale.py")
    assert editor.codes("model.py") == {"numeric/tolerance-exceeded"}  # the template returns zeros


TRITON = """\
import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    tl.store(y, tl.load(x))


def run(x, y, n):
    scale[(1,)](x, y, n, 64)
"""


@pytest.mark.parametrize("registered", [True, False])
async def test_a_triton_kernel_that_is_not_run_is_never_silent(editor: Editor, registered: bool):
    if registered:
        write_project(editor, TRITON)
    else:
        write(editor, TRITON)
    (editor.root / "triton").mkdir()  # a folder of that name is not the package
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    (found,) = editor.last("model.py").diagnostics
    assert (found.code, found.range.start) == ("engine/not-executed", types.Position(5, 4))
    assert "Triton is not installed" in found.message
    assert (found.severity == types.DiagnosticSeverity.Hint) is not registered
    start = types.Position(0, 0)
    editor.change("model.py", types.TextDocumentContentChangePartial(types.Range(start, start), "# edited\n"))
    await editor.idle()
    (moved,) = editor.last("model.py").diagnostics
    assert moved.range.start == types.Position(6, 4)


async def test_a_decorator_of_another_package_is_not_a_kernel(editor: Editor):
    write(editor, "from numba import jit\n\n\n@jit\ndef f(x):\n    return x\n\n\nf[1](2)  # not triton\n")
    await editor.start()
    editor.open("model.py")
    await editor.idle()
    assert editor.published == []


async def test_a_constant_of_a_sibling_module_is_read_again_when_that_is_saved(editor: Editor):
    (editor.root / "limits.py").write_text('LAST = "i < n"\n', encoding="utf-8")
    text = GOOD.replace("import cupy as cp\n", "import cupy as cp\nfrom limits import LAST\n").replace("i < n", "LAST")
    write(editor, text.replace('""", "scale")', '""".replace("LAST", LAST), "scale")'))
    await editor.start()
    editor.open("model.py")
    editor.open("limits.py")
    await editor.idle()
    assert editor.found("model.py") == []
    editor.save("limits.py", 'LAST = "i <= n"\n')
    await editor.idle()
    assert editor.codes("model.py") == {"memory/out-of-bounds"}
