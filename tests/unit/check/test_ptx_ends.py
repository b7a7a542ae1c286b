"""PTX that a binary held as a string: the zero behind it is not a statement."""

from __future__ import annotations

from pathlib import Path

from support.ptx_texts import SCALE

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions


def test_the_zero_behind_a_text_is_not_part_of_it(tmp_path: Path) -> None:
    (tmp_path / "scale.ptx").write_text(SCALE + "\0", encoding="utf-8")
    (request,) = collect(["scale.ptx"], CheckOptions(cases=2), tmp_path).requests
    (report,) = (event for event in check_kernel(request) if isinstance(event, KernelReport))
    assert report.status == "unreferenced"


def test_a_text_without_an_entry_is_said_to_have_none(tmp_path: Path) -> None:
    (tmp_path / "none.ptx").write_text(".version 8.0\n", encoding="utf-8")
    (finding,) = collect(["none.ptx"], CheckOptions(), tmp_path).findings
    assert "has no .entry" in finding.message
