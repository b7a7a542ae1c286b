"""Kernels of pyptx in a `.py`: found by its text, with the sizes of its calls."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.source.python import may_have_pyptx, read_python

TEXT = """\
import pyptx
from pyptx import kernel, Tile

ROWS = 64


@pyptx.kernel
def plain(x, y, *, step=4, width):
    pass


def build(rows, columns, *, arch="sm_90a"):
    @kernel(arch=arch)
    def inner(x, y):
        pass

    return inner


class Holder:
    @kernel
    def method(self):
        pass


@functools.cache
def other():
    pass


build(ROWS, columns=128)
build(rows, 32)
build(8, 16, arch="sm_80")
plain.ptx(width=8, step=2)
plain.ptx(width=unknown)
"""


@pytest.fixture
def kernels():
    return {one.name: one for one in read_python("/k.py", TEXT).pyptx}


def test_kernels_at_the_top_level_and_in_functions_that_build_them(kernels):
    assert [*kernels] == ["plain", "inner"]  # not a method, whose object is not known
    assert (kernels["plain"].entry, dict(kernels["plain"].params)) == ("plain", {"step": "4", "width": None})
    inner = kernels["inner"]
    assert (inner.entry, inner.builder) == ("build", "build")
    assert dict(inner.params) == {"rows": None, "columns": None, "arch": '"sm_90a"'}
    lines = TEXT.split("\n")
    assert [lines[one.name_range.start.line].strip()[:9] for one in kernels.values()] == ["def plain", "def inner"]


def test_sizes_of_calls_are_those_that_the_text_shows(kernels):
    assert [dict(call.values) for call in kernels["inner"].calls] == [
        {"rows": 64, "columns": 128},
        {"rows": 8, "columns": 16},
    ]
    assert [dict(call.values) for call in kernels["plain"].calls] == [{"width": 8, "step": 2}]


def test_another_package_has_a_decorator_of_that_name():
    text = "from other import kernel\n\n@kernel\ndef f(x):\n    pass\n"
    assert not may_have_pyptx(text) and read_python("/k.py", text).pyptx == ()
    assert not may_have_pyptx('"""As pyptx does."""\n')
