"""``gpuemu run SCRIPT.py`` with kernels of Warp, without a driver."""

from __future__ import annotations

from pathlib import Path

from support.language_programs import expected_findings, found

BUGS = Path(__file__).parent / "programs" / "bugs.py"

SAXPY = """\
import warp as wp


@wp.kernel
def saxpy(a: float, x: wp.array(dtype=float), y: wp.array(dtype=float)):
    i = wp.tid() + 1
    y[i] = a * x[i] + y[i]


x = wp.zeros(100, dtype=float, device="cuda:0")
wp.launch(saxpy, dim=100, inputs=[2.0, x, wp.zeros_like(x)], device="cuda:0")
"""


def test_planted_bugs_are_on_their_lines_and_the_kernels_that_they_are_made_from_silent(gpuemu_run, tmp_path):
    output, report = gpuemu_run(BUGS, str(tmp_path))
    assert "right" in output, output
    assert (report["launches"], report["checked"]) == (13, 13)
    expected = expected_findings(BUGS)
    assert len(expected) == 5
    assert found(report) == expected


def test_an_edited_line_is_reported_where_it_is(gpuemu_run, tmp_path, monkeypatch):
    """Warp keeps compiled modules: those of an earlier text have other lines."""
    monkeypatch.setenv("WARP_CACHE_PATH", str(tmp_path / "warp"))
    lines = []
    for name, text in (("first.py", SAXPY), ("first.py", f"\n\n{SAXPY}"), ("second.py", SAXPY)):
        script = tmp_path / name
        script.write_text(text)
        _, report = gpuemu_run(script)
        assert {Path(finding["path"]).name for finding in report["findings"]} == {name}
        lines.append({finding["range"]["start"]["line"] for finding in report["findings"]})
    assert lines == [{6}, {8}, {6}]
