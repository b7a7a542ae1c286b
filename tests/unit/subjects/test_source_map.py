"""Mapping of PTX locations to ranges in the user's files."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.ptx.model import Location
from gpuemu_lsp.engine.subjects.source_map import SourceMap, statement_range

ROWS = [
    ("    y[i] = x[i];  // why", 4, (4, 15)),
    ("    y[i] = x[i];", 0, (4, 15)),
    ("\tif (i < n) y[i] = f(x[i], 2);", 12, (12, 29)),
    ("    for (int i = 0; i < n; ++i) sum += x[i];", 32, (32, 43)),
    ("    if (i < n) { y[i] = 1; }", 17, (17, 25)),
    ("    /* 漢 */ y[i] = 1;", 14, (14, 22)),
    ("    a = b /* note */ + c;", 4, (4, 9)),
    ("", 3, (0, 1)),
    ("short", 99, (0, 5)),
]


@pytest.mark.parametrize(("line", "column", "expected"), ROWS)
def test_statement_range_ends_with_the_statement(line: str, column: int, expected: tuple[int, int]) -> None:
    found = statement_range(f"first\n{line}\nlast", 1, column)
    assert (found.start.line, found.end.line) == (1, 1)
    assert (found.start.column, found.end.column) == expected


@pytest.mark.parametrize(("line", "column"), [(-1, 0), (5, 0), (10**9, 3)])
def test_a_line_outside_the_file_is_accepted(line: int, column: int) -> None:
    assert statement_range("one\ntwo", line, column).start.line == max(line, 0)


def atlas() -> SourceMap:
    texts = {"/k.cu": "a();\nb();\nc();\n", "/mine.h": "inline();\n"}
    files = {1: "/k.cu", 2: "/cuda/include/cuda_fp16.hpp", 3: "/mine.h"}
    return SourceMap(files, texts.get, Place("/k.cu", Range.of(0, 0, 0, 1)))


def test_a_cuda_header_is_skipped_for_the_users_own_line() -> None:
    place, related = atlas().place(Location(2, 40, 3, "f", Location(1, 2, 1)))
    assert (place.path, place.range.start.line) == ("/k.cu", 1)
    assert related == ()


def test_the_innermost_user_line_wins_and_the_callers_are_related() -> None:
    place, related = atlas().place(Location(3, 1, 1, "inline", Location(2, 9, 9, "g", Location(1, 3, 1))))
    assert (place.path, place.range.start.line) == ("/mine.h", 0)
    assert [(item.place.path, item.place.range.start.line) for item in related] == [("/k.cu", 2)]


@pytest.mark.parametrize("location", [None, Location(2, 1, 1), Location(99, 1, 1)])
def test_without_a_user_line_the_fallback_is_used(location: Location | None) -> None:
    assert atlas().place(location) == (Place("/k.cu", Range.of(0, 0, 0, 1)), ())


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("    i = (n + 3) // 4  # why", (4, 20)),
        ("    tl.store(y, 'a#b')  # why", (4, 22)),
        ('    x = f("//", "#")', (4, 20)),
    ],
)
def test_two_slashes_are_an_operator_in_python(line: str, expected: tuple[int, int]) -> None:
    found = statement_range(line, 0, 4, python=True)
    assert (found.start.column, found.end.column) == expected
