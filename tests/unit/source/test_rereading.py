"""A file that is read again after edits: the result is that of reading it for the first time."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.corpus import corpus_kernels

from benchmarks.large_source import large_source
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.preprocessor import lexer
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.items import split_items

_INSERTED = (
    *("{", "}", "(", ")", "/*", "*/", "//", "// a\\\n", '"', "'", 'R"(', ')"', ";", "\\\n", "\n", "\n\n", "\r\n", "\r"),
    *("#if 0\n", "#if N\n", "#else\n", "#endif\n", "#define N 1\n", "#define OPEN {\n", "#undef N\n", "OPEN\n"),
    *("é", "\U0001f600", "\ufeff", "\ud800", "\0", "<<<1, 1>>>(", "namespace a {\n", "template <typename T>\n"),
    *(
        "__global__ void k(float* x) {\n",
        "}\n",
        "\n}\n",
        "};\n",
        "struct S {\n",
        "using namespace std;\n",
        "const int N = 4;\n",
    ),
    *(
        'extern "C" {\n',
        "k<float><<<2, 64>>>(x);\n",
        "MAKE(float)\n",
        "#define MAKE(T) __global__ void m_##T(T* x) {}\n",
    ),
)


def _sources() -> list[str]:
    paths = sorted({spec.source for spec in corpus_kernels()})[::9]
    texts = [Path(path).read_text(encoding="utf-8") for path in paths]
    crlf = texts[0].replace("\n", "\r\n")
    guarded = "#ifndef GUARD\n#define GUARD\nnamespace a {\n" + "\n".join(texts[1:4]) + "\n}\n#endif\n"
    return [*texts, crlf, guarded, "\n".join(texts), large_source(12, 500)]


_SOURCES = _sources()


@st.composite
def _edits(draw: st.DrawFn, text: str) -> list[str]:
    """Return texts, each made from the one before by an edit."""
    texts = [text]
    for _ in range(draw(st.integers(1, 5))):
        start = draw(st.integers(0, len(text)))
        kind = draw(st.sampled_from(("insert", "delete", "line", "move")))
        if kind == "insert":
            text = text[:start] + draw(st.sampled_from(_INSERTED)) + text[start:]
        elif kind == "delete":
            text = text[:start] + text[start + draw(st.integers(1, 60)) :]
        else:
            lines = text.split("\n")
            line = lines.pop(draw(st.integers(0, len(lines) - 1)))
            if kind == "move":
                lines.insert(draw(st.integers(0, len(lines))), line)
            text = "\n".join(lines)
        texts.append(text)
    return texts


def _without_memory(self: Memo[Any], key: Hashable, compute: Callable[[], Any]) -> Any:
    return compute()


def _read(text: str) -> object:
    """Return what reading a text gives, with its device view."""
    source = read("/nowhere/kernel.cu", text)
    return source, source.device_view, source.headers


def _read_first(text: str, monkeypatch: pytest.MonkeyPatch) -> object:
    with monkeypatch.context() as patch:
        patch.setattr(Memo, "get", _without_memory)
        return _read(text)


def _read_sequentially(text: str, monkeypatch: pytest.MonkeyPatch) -> object:
    with monkeypatch.context() as patch:
        patch.setattr(lexer, "_BLOCK_BYTES", 1 << 30)
        return _read_first(text, monkeypatch)


@settings(max_examples=100, deadline=None)
@given(texts=st.sampled_from(_SOURCES).flatmap(_edits))
def test_reading_after_edits_is_reading_for_the_first_time(texts: list[str]) -> None:
    for text in texts[:-1]:
        _read(text)
    assert _read(texts[-1]) == _read_first(texts[-1], pytest.MonkeyPatch())


@settings(max_examples=200, deadline=None)
@given(texts=st.sampled_from(_SOURCES).flatmap(_edits))
def test_reading_in_blocks_is_reading_in_sequence(texts: list[str]) -> None:
    monkeypatch = pytest.MonkeyPatch()
    with monkeypatch.context() as patch:
        patch.setattr(lexer, "_BLOCK_BYTES", 40)
        found = _read_first(texts[-1], monkeypatch)
    assert found == _read_sequentially(texts[-1], monkeypatch)


@pytest.mark.parametrize(
    "text",
    [
        pytest.param("void f() {\n}\n/* a\n" + "b {\n}\n" * 9 + "*/\nvoid g() {\n}\n", id="comment"),
        pytest.param("void f() {\n}\n/* a\n" + "b {\n}\n" * 9, id="open comment"),
        pytest.param("void f() {\n}\n// a\\\n} {\\\n}\nvoid g() {\n}\n" * 3, id="continued comment"),
        pytest.param('const char* s = R"(\n' + "b {\n}\n" * 9 + ')";\nvoid g() {\n}\n', id="raw string"),
        pytest.param("#define M \\\n} \\\n}\nvoid g() {\n}\n" * 3, id="continued directive"),
        pytest.param("MAKE(\n{\n}\n)\n;\nMAKE(\n{\n}\n)\nvoid g() {\n}\n\n;\n" * 3, id="what follows a block"),
        pytest.param("struct S {\n}\n\n\n, s;\nvoid f() {\n}\n\n\n;\nint n;\n" * 3, id="declarators after a block"),
        pytest.param("namespace a {\nvoid f() {\n}\n}\nvoid f() {\n}\n" * 4, id="namespace"),
        pytest.param("#if N\nvoid f() {\n#else\nvoid f(int) {\n#endif\n}\n" * 4, id="alternatives"),
    ],
)
def test_blocks_end_between_tokens(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    forms = []
    for size in (1, 8, 20, 1 << 30):
        with monkeypatch.context() as patch:
            patch.setattr(lexer, "_BLOCK_BYTES", size)
            patch.setattr(Memo, "get", _without_memory)
            source = lexer.SourceText(text)
            items = split_items(source, MacroTable([source]))
            forms.append((source.clean, source.code, source.directives, items))
    assert forms[0] == forms[-1]
    assert forms[1:-1] == forms[2:]


@settings(max_examples=6, deadline=None)
@given(texts=_edits(large_source(60, 6000)))
def test_reading_a_large_file_after_edits(texts: list[str]) -> None:
    monkeypatch = pytest.MonkeyPatch()
    for text in texts[:-1]:
        _read(text)
    assert _read(texts[-1]) == _read_sequentially(texts[-1], monkeypatch)


@pytest.mark.parametrize(
    "edit",
    [
        pytest.param(("\n", "\n\n"), id="empty line"),
        pytest.param(("float sum", "float  sum"), id="in a body"),
        pytest.param(("// in the order", "// in any order"), id="in a comment"),
    ],
)
def test_an_edit_costs_what_changed(edit: tuple[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    text = large_source(40, 4000)
    middle = text.index(edit[0], len(text) // 2)
    _read(text)
    computed: list[Hashable] = []
    get = Memo.get

    def counted(self: Memo[Any], key: Hashable, compute: Callable[[], Any]) -> Any:
        def count() -> Any:
            computed.append(key)
            return compute()

        return get(self, key, count)

    monkeypatch.setattr(Memo, "get", counted)
    _read(text[:middle] + edit[1] + text[middle + len(edit[0]) :])
    assert 0 < len(computed) < 40, [str(key)[:80] for key in computed]
