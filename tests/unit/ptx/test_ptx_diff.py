"""Structural diff of PTX: independent of names, exact about edits, located on source lines."""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest
from support.corpus import CORPUS, corpus_kernels
from support.ptx_text import compiled

from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.diff import Hunk, diff_entries
from gpuemu_lsp.engine.subjects.request import CheckRequest


def hunks(before: str, after: str, head: str = "") -> tuple[Hunk, ...]:
    modules = [parse(compiled(f"{head}__global__ void k(float* x) {{ {code} }}", "k")) for code in (before, after)]
    return diff_entries(modules[0], "_Z1kPf", modules[1])


SAME = {
    "comment": ("x[0] = x[1];", "/* more */ x[0] = x[1];"),
    "lines": ("x[0] = x[1] + 1; x[2] = x[3];", "x[0] = x[1] + 1;\n\n\nx[2] = x[3];"),
    "names": ("float a = x[1]; x[0] = a * 3.0f;", "float renamed = x[1]; x[0] = renamed * 3.0f;"),
    "loop": ("for (int i = 0; i < 9; ++i) x[i] += x[99];", "int j = 0; while (j < 9) { x[j] += x[99]; ++j; }"),
}
CHANGED = {
    "constant": ("x[0] = x[1] * 2.5f;", "x[0] = x[1] * 2.25f;", "f32:2.5", "f32:2.25"),
    "operation": ("x[0] = x[1] + x[2];", "x[0] = x[1] - x[2];", "add.f32", "sub.f32"),
    "condition": ("if (x[0] > 1) x[0] = 1;", "if (x[0] >= 1) x[0] = 1;", "setp.leu.f32", "setp.ltu.f32"),
    "string": ('printf("a%f", x[0]);', 'printf("b%f", x[0]);', "'a%f'", "'b%f'"),
    "offset": ("x[3] = x[1];", "x[3] = x[2];", "+4]", "+8]"),
}


@pytest.mark.parametrize("name", SAME)
def test_equivalent_sources_have_no_difference(name):
    assert hunks(*SAME[name]) == ()


@pytest.mark.parametrize("name", CHANGED)
def test_an_edit_is_one_hunk(name):
    before, after, old, new = CHANGED[name]
    (hunk,) = hunks(before, after)
    assert any(old in line.text for line in hunk.before)
    assert any(new in line.text for line in hunk.after)
    assert len(hunk.before) == len(hunk.after) == 1


def test_swapped_operands_are_a_difference():
    changes = hunks("x[0] = x[1] - x[2];", "x[0] = x[2] - x[1];")
    assert 2 <= sum(len(hunk.before) + len(hunk.after) for hunk in changes) <= 6


def test_an_added_instruction_does_not_change_the_others():
    rest = "".join(f"x[{i}] = x[{i}] * x[{i + 40}] + {i}.5f;" for i in range(2, 30))
    changes = hunks(f"x[0] = x[1] * 3.5f; {rest}", f"x[0] = (x[1] + 1.25f) * 3.5f; {rest}")
    assert sum(len(hunk.before) + len(hunk.after) for hunk in changes) <= 4


def test_constant_tables_are_compared():
    heads = [f"__constant__ float table[4] = {{1.f, 2.f, {value}f, 4.f}};\n" for value in ("3.", "3.5")]
    modules = [
        parse(compiled(f"{head}__global__ void k(float* x) {{ x[0] = table[int(x[1])]; }}", "k")) for head in heads
    ]
    (hunk,) = diff_entries(modules[0], "_Z1kPf", modules[1])
    assert "00004040" in hunk.before[0].text and "00006040" in hunk.after[0].text


def test_called_functions_are_compared():
    head = "__device__ __noinline__ float f(float v) {{ return v * {}; }}\n"
    modules = [
        parse(compiled(head.format(value) + "__global__ void k(float* x) { x[0] = f(x[1]); }", "k"))
        for value in ("3.f", "5.f")
    ]
    (hunk,) = diff_entries(modules[0], "_Z1kPf", modules[1])
    assert hunk.function == "_Z1ff"


CORRECT_COUNTERPARTS = {
    "attention": "attention",
    "flash_attention": "flash_attention",
    "gelu": "gelu",
    "l2norm": "l2norm",
    "leaky_relu": "leaky_relu",
    "matmul": "matmul_tiled",
    "rmsnorm": "rmsnorm",
    "softmax_llm": "softmax",
    "softmax_tail": "softmax_masked",
    "swiglu": "swiglu",
    "silu": "silu",
}
"""Buggy kernels of the corpus, and their correct counterparts."""


@pytest.fixture(scope="module")
def modules():
    specs = {Path(spec.source).stem: spec for spec in corpus_kernels()}

    def module(stem: str):
        prepared = prepare(CheckRequest(specs[stem], root=CORPUS.as_posix()))
        assert prepared.artifact is not None
        return parse(prepared.artifact.ptx), prepared.artifact.entries[prepared.plans[0].entry], specs[stem].source

    return module


@pytest.mark.parametrize("name", CORRECT_COUNTERPARTS)
def test_planted_bugs_differ_on_the_edited_lines(modules, name):
    good, entry, old_path = modules(CORRECT_COUNTERPARTS[name])
    bad, other, path = modules(f"{name}_buggy")
    removed, added = edited(Path(old_path), Path(path))
    changes = diff_entries(good, entry, bad, other)
    named = frozenset().union(*(hunk.lines(path) for hunk in changes))
    was = frozenset().union(*(hunk.old_lines(old_path) for hunk in changes))
    assert changes
    assert named & added or was & removed
    code = sum(1 for item in bad.functions[other].body if hasattr(item, "opcode"))
    changed = sum(len(hunk.after) for hunk in changes)
    assert changed < code / 2, "most of the kernel is unchanged"


def edited(before: Path, after: Path) -> tuple[set[int], set[int]]:
    """Return the lines of code that the old and the new text do not share; comments do not count."""
    old, new = ([_code(line) for line in path.read_text().split("\n")] for path in (before, after))
    removed, added = set(), set()
    for tag, low, high, other_low, other_high in difflib.SequenceMatcher(None, old, new, autojunk=False).get_opcodes():
        if tag != "equal":
            removed.update(line for line in range(low, high) if old[line])
            added.update(line for line in range(other_low, other_high) if new[line])
    return removed, added


def _code(line: str) -> str:
    return re.sub(r"\s*//.*", "", line).strip()
