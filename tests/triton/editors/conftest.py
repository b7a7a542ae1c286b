"""Fixtures of the editor tests that need Triton or PyTorch: a folder with a registered, buggy Triton kernel."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from support.editor_project import isolated_environment

# A softmax of rows in the manner of Triton's tutorial, with the mask missing in one of its two accesses.
_SOFTMAX = '''\
"""Softmax of the rows of a matrix."""

import torch
import triton
import triton.language as tl


@triton.jit
def softmax_kernel(x_ptr, y_ptr, cols, BLOCK: tl.constexpr):
    row = tl.program_id(0)
    col = tl.arange(0, BLOCK)
    x = tl.load(x_ptr + row * cols + col, mask=col < cols, other=-float("inf"))
    e = tl.exp(x - tl.max(x, axis=0))
    tl.store(y_ptr + row * cols + col, e / tl.sum(e, axis=0))


def reference(inputs):
    return torch.softmax(inputs["x_ptr"], dim=1)
'''
_CONFIG = """\
[[kernels]]
name = "softmax_kernel"
source = "softmax.py"
reference = "softmax.py:reference"
[kernels.dims]
rows = { min = 1, max = 16 }
cols = { min = 1, max = 200 }
[kernels.args]
x_ptr = { in = ["rows", "cols"] }
y_ptr = { out = ["rows", "cols"] }
cols = "cols"
[kernels.constexprs]
BLOCK = "next_pow2(cols)"
[kernels.launch]
grid = ["rows"]
"""


@dataclass(frozen=True)
class TritonProject:
    """A folder with `softmax.py` and its `gpuemu.toml`; the statement with the bug and its correction."""

    root: Path
    wrong = "tl.store(y_ptr + row * cols + col, e / tl.sum(e, axis=0))"
    right = "tl.store(y_ptr + row * cols + col, e / tl.sum(e, axis=0), mask=col < cols)"

    @property
    def facts(self) -> dict[str, object]:
        """Facts for the scripts: 0-based line and columns of the bug, and the corrected text."""
        text = (self.root / "softmax.py").read_text(encoding="utf-8")
        (line,) = [number for number, line in enumerate(text.split("\n")) if self.wrong in line]
        start = text.split("\n")[line].index(self.wrong)
        return {
            "folder": str(self.root),
            "line": line,
            "start": start,
            "end": start + len(self.wrong),
            "fixed": text.replace(self.wrong, self.right),
        }


@pytest.fixture
def project(tmp_path: Path) -> TritonProject:
    root = tmp_path / "model"
    root.mkdir()
    (root / "softmax.py").write_text(_SOFTMAX, encoding="utf-8")
    (root / "gpuemu.toml").write_text(_CONFIG, encoding="utf-8")
    return TritonProject(root)


@pytest.fixture
def editor_environment(tmp_path: Path) -> dict[str, str]:
    return isolated_environment(tmp_path)
