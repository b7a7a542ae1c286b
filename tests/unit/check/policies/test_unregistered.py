"""Findings about kernels that are not registered."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Place, Range, Severity
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.unregistered import of_kernel


def test_a_finding_about_the_includer_of_a_header_names_the_kernel():
    """Otherwise nothing says why the kernel of the header did not run."""
    spec = KernelSpec("k", "k.cuh", None)
    message = "the library's header pointer.h does not compile"
    for path, kernel in (("includer.cu", "k"), ("k.cuh", None)):
        place = Place(path, Range.of(0, 0, 0, 1))
        finding = make("engine/not-executed", message, place, severity=Severity.HINT)
        assert of_kernel(finding, spec).kernel == kernel
    warning = make("compile/warning", "unused", Place("includer.cu", Range.of(0, 0, 0, 1)))
    assert of_kernel(warning, spec) is warning
