"""``gpuemu run SCRIPT.py`` with kernels of CuTe DSL, without a driver."""

from __future__ import annotations

from pathlib import Path

from support.language_programs import expected_findings, found

PROGRAMS = Path(__file__).parent / "programs"
SAXPY = PROGRAMS / "saxpy.py"


def test_an_unmodified_script_has_right_results(gpuemu_run):
    output, report = gpuemu_run(SAXPY)
    assert "right" in output, output
    assert (report["launches"], report["checked"], report["findings"]) == (1, 1, [])


def test_an_access_past_the_end_is_on_its_line_and_column(gpuemu_run, tmp_path):
    script = tmp_path / "saxpy.py"
    script.write_text(SAXPY.read_text().replace("if i < cute.size(x)", "if i <= cute.size(x)"))
    text = script.read_text().splitlines()
    _, report = gpuemu_run(script)
    line = next(number for number, row in enumerate(text) if "y[i] =" in row)
    (finding,) = report["findings"]
    first, *others = (
        (one["rule"], one["range"]["start"]["line"], one["range"]["start"]["character"])
        for one in (finding, *finding["consequences"])
    )
    assert first == ("memory/out-of-bounds", line, text[line].index("x[i]"))
    columns = (text[line].rindex("y[i]"), text[line].index("y[i]"))
    assert others == [("memory/out-of-bounds", line, column) for column in columns]


def test_planted_bugs_are_on_their_lines_and_the_kernels_that_they_are_made_from_silent(gpuemu_run):
    script = PROGRAMS / "bugs.py"
    output, report = gpuemu_run(script)
    assert "right" in output, output
    assert (report["launches"], report["checked"]) == (20, 20)
    assert found(report) == expected_findings(script)


def test_an_edited_line_is_reported_where_it_is(gpuemu_run, tmp_path):
    """CuTe DSL keeps compiled modules: those of an earlier text have other lines."""
    script = tmp_path / "saxpy.py"
    wrong = SAXPY.read_text().replace("if i < cute.size(x)", "if i <= cute.size(x)")
    lines = []
    for text in (wrong, f"\n\n\n{wrong}"):
        script.write_text(text)
        _, report = gpuemu_run(script)
        lines.append({finding["range"]["start"]["line"] for finding in report["findings"]})
    assert [{line + 3 for line in lines[0]}] == lines[1:]
