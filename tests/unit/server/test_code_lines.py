"""Suppression comments in `.py` files: in strings with CUDA code, and on lines of Python."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.findings import Position
from gpuemu_lsp.engine.project.edits import applied
from gpuemu_lsp.engine.source.ignore_comments import ignored_lines
from gpuemu_lsp.server.code_actions.code_lines import code_line
from gpuemu_lsp.server.code_actions.fix_all import without_suppressions
from gpuemu_lsp.server.code_actions.fixes import ignore

RULE = "numeric/tolerance-exceeded"
MARKED = f"y[i] = x[i];  // gpuemu: ignore[{RULE}]"
CODE = "__global__ void k(float* y, float* x, int i) {\n    y[i] = x[i];\n}\n"
FORMS = {
    "raw": ('import cupy\nk = cupy.RawKernel(r"""%s""", "k")\n', CODE),
    "crlf": ('import cupy\r\nk = cupy.RawKernel(r"""%s""", "k")\r\n', CODE.replace("\n", "\r\n")),
    "escaped": ('import cupy\nk = cupy.RawKernel("ü" "%s", "k")\n', CODE.replace("\n", "\\n")),
    "literals": ('import cupy\nk = cupy.RawKernel("%s", "k")\n', CODE.replace("\n", '\\n"\n    "')),
    "f-string": ('import cupy\nN = 1\nk = cupy.RawKernel(f"#define N {N}\\n" r"""%s""", "k")\n', CODE),
    "last line": ('import cupy\nk = cupy.RawKernel("""%s""", "k")\n', CODE.replace(";\n}\n", "; }")),
}


def _place(text: str, part: str) -> Position:
    before = text[: text.index(part)]
    return Position(before.count("\n"), len(before.rpartition("\n")[2].encode()))


@pytest.mark.parametrize("form", FORMS)
def test_a_comment_is_added_to_the_code_and_removed_again(form: str):
    frame, code = FORMS[form]
    text = frame.replace("%s", code)
    line = code_line("/m.py", text, _place(text, "y[i] ="))
    assert line is not None
    change = ignore(line, RULE)
    assert change is not None
    marked = applied(text, change)
    if form == "last line":
        assert f"y[i] = x[i]; }}  // gpuemu: ignore[{RULE}]" in marked
    else:
        assert MARKED in marked
    compile(marked, "m.py", "exec")
    again = code_line("/m.py", marked, _place(marked, "y[i] ="))
    assert again is not None
    second = ignore(again, "numeric/nan")
    assert second is not None and f"ignore[{RULE}, numeric/nan]" in applied(marked, second)
    removal = without_suppressions(again, [RULE])
    assert removal is not None and applied(marked, removal) == text


@pytest.mark.parametrize(
    "text",
    [
        'import cupy\nk = cupy.RawKernel("a\\\\\\nb y[i] = 1;" + open("x").read(), "k")\nz = """\n y[i] = 1;\n"""\n',
        'import cupy\nC = """#define A \\\\\ny[i] = 1; \\\\\nb\n"""\nk = cupy.RawKernel(C, "k")\n',
        'import cupy\nC = """/*\ny[i] = 1;\n*/"""\nk = cupy.RawKernel(C, "k")\n',
    ],
    ids=["another string", "macro", "block comment"],
)
def test_no_comment_where_it_would_not_be_one(text: str):
    line = code_line("/m.py", text, Position(text[: text.rindex("y[i]")].count("\n"), 0))
    assert line is None or ignore(line, RULE) is None


def test_a_line_of_python_has_a_comment_of_python():
    text = "@triton.jit\ndef k(p):\n    y = x // 2; tl.store(p, y)\n\n"
    line = code_line("/m.py", text, Position(2, 4))
    assert line is not None
    change = ignore(line, RULE)
    assert change is not None
    marked = applied(text, change)
    assert f"tl.store(p, y)  # gpuemu: ignore[{RULE}]\n" in marked
    assert ignored_lines(marked, python=True) == {2: frozenset({RULE})}
    again = code_line("/m.py", marked, Position(2, 4))
    removal = without_suppressions(again, [RULE])
    assert removal is not None and applied(marked, removal) == text


def test_an_own_line_comment_of_python_applies_to_the_next_line():
    text = f"# gpuemu: ignore[{RULE}]\n# more\n\ny = 1\n"
    assert ignored_lines(text, python=True) == {3: frozenset({RULE})}
    assert ignored_lines(text) == {}
