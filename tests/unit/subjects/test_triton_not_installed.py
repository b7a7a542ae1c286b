"""Triton kernels where Triton is not installed, as in the environment of these tests."""

from __future__ import annotations

import importlib.util

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.subjects.request import CheckRequest

SOURCE = """\
open({marker!r}, "w")
import triton

@triton.jit
def copy(x, y, n):
    pass
"""


@pytest.mark.skipif(getattr(importlib.util.find_spec("triton"), "origin", None) is not None, reason="has Triton")
def test_the_kernel_is_not_executed_and_its_module_not_imported(tmp_path):
    marker = tmp_path / "imported"
    source = tmp_path / "copy.py"
    source.write_text(SOURCE.format(marker=str(marker)))
    events = list(check_kernel(CheckRequest(KernelSpec("copy", source.as_posix(), None))))
    (finding,) = (event for event in events if isinstance(event, Finding))
    (report,) = (event for event in events if isinstance(event, KernelReport))
    assert finding.rule == "engine/not-executed" and "pip install 'gpuemu-lsp[triton]'" in finding.message
    assert (finding.place.range.start.line, report.status) == (4, "not-executed")
    assert not marker.exists()
