"""Results about cells of notebooks, at their places in the ``.ipynb``."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.jobs.run import fingerprinted
from gpuemu_lsp.engine.report.model import Run
from gpuemu_lsp.engine.source.notebooks.files import Notebook


def in_notebooks(run: Run, notebooks: Sequence[Notebook]) -> Run:
    """Return a run whose findings and kernels are in the files that have their cells."""
    if not notebooks:
        return run
    findings = fingerprinted([_located(finding, notebooks) for finding in run.findings], run.root)
    return replace(
        run, findings=tuple(findings), kernels=tuple(_with_source(kernel, notebooks) for kernel in run.kernels)
    )


def _located(finding: Finding, notebooks: Sequence[Notebook]) -> Finding:
    owner = next((notebook for notebook in notebooks if notebook.has(finding.place.path)), None)
    return finding if owner is None else owner.located(finding)


def _with_source(kernel: KernelReport, notebooks: Sequence[Notebook]) -> KernelReport:
    owner = next((notebook for notebook in notebooks if notebook.has(kernel.source)), None)
    return kernel if owner is None else replace(kernel, source=owner.path)
