"""``gpuemu run SCRIPT.py`` with kernels of TileLang, without a driver."""

from __future__ import annotations

from pathlib import Path

from support.language_programs import expected_findings, found

BUGS = Path(__file__).parent / "programs" / "bugs.py"


def test_planted_bugs_are_on_their_lines_and_the_kernels_that_they_are_made_from_silent(gpuemu_run):
    output, report = gpuemu_run(BUGS)
    assert "right" in output, output
    expected = expected_findings(BUGS)
    assert len(expected) == 5
    assert found(report) == expected
    assert report["launches"] == report["checked"]
