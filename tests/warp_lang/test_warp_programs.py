"""``gpuemu run SCRIPT.py`` with kernels of Warp, without a driver."""

from __future__ import annotations

from pathlib import Path

BUGS = Path(__file__).parent / "programs" / "bugs.py"


def test_planted_bugs_are_on_their_lines_and_the_kernels_that_they_are_made_from_silent(gpuemu_run, tmp_path):
    output, report = gpuemu_run(BUGS, str(tmp_path))
    assert "right" in output, output
    assert (report["launches"], report["checked"]) == (13, 13)
    expected = {
        (number, rule)
        for number, line in enumerate(BUGS.read_text().splitlines())
        if "# expect: " in line
        for rule in line.partition("# expect: ")[2].split()
    }
    assert len(expected) == 5
    assert {(finding["range"]["start"]["line"], finding["rule"]) for finding in report["findings"]} == expected
