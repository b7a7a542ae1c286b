"""Statements of a module that a kernel needs, and no others."""

from __future__ import annotations

import ast

from gpuemu_lsp.engine.subjects.module_slice import slice_of

MODULE = """\
from __future__ import annotations
import os, torch
import triton.language as tl
from triton import jit, cdiv
from helpers import *

try:
    from library import fast_exp
except ImportError:
    def fast_exp(x): return tl.exp(x)

SIZE = 4
BLOCK: tl.constexpr = SIZE * 32


@jit
def inner(x): return fast_exp(x) + from_helpers


@jit
def kernel(x, N: tl.constexpr = BLOCK): tl.store(x, inner(x))


def run(x): kernel[(cdiv(4, 2),)](x)


run(torch.zeros(os.getpid()))
"""


def test_the_kernel_and_what_it_refers_to() -> None:
    sliced = slice_of(ast.parse(MODULE), "kernel")
    text = ast.unparse(sliced)
    assert "import os" not in text and "cdiv" not in text and "run(" not in text
    for needed in ("import annotations", "import triton.language as tl", "import jit", "fast_exp", "import *", "SIZE"):
        assert needed in text
    assert [node.name for node in sliced.body if isinstance(node, ast.FunctionDef)] == ["inner", "kernel"]
    lines = {node.name: node.lineno for node in ast.parse(MODULE).body if isinstance(node, ast.FunctionDef)}
    assert all(lines[node.name] == node.lineno for node in sliced.body if isinstance(node, ast.FunctionDef))
    compile(sliced, "module.py", "exec")


def test_what_changes_a_needed_value_is_needed_too() -> None:
    """Configurations that loops append; not what the script does with modules, or with other values."""
    text = """
import torch, triton
torch.manual_seed(0)
configs, results = [], {}
for size in (64, 128):
    configs.append(triton.Config({"BLOCK": size}))
results["a"] = 1
tuned = {"configs": configs, "key": ["n"]}
tuned["key"] += ["m"]

@triton.autotune(**tuned)
@triton.jit
def kernel(x): pass

results.update(b=kernel(torch.ones(1)))
"""
    sliced = ast.unparse(slice_of(ast.parse(text), "kernel"))
    assert "configs.append" in sliced and "tuned['key'] +=" in sliced
    assert "manual_seed" not in sliced and "results[" not in sliced and "results.update" not in sliced
