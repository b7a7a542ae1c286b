"""The text format: underlines, limits, hints and colours, summary."""

from __future__ import annotations

import re
from dataclasses import replace

import pytest

from gpuemu_lsp.engine.check.clean_sizes import CleanSizes
from gpuemu_lsp.engine.check.model import CaseCount, KernelReport
from gpuemu_lsp.engine.findings import Place, Range, Related, Severity
from gpuemu_lsp.engine.report.model import Run
from gpuemu_lsp.engine.report.terminal_text import cells, cut, expand, frame
from gpuemu_lsp.engine.report.text import TextStyle, cases_text, element_table, render_text
from gpuemu_lsp.engine.rules import make


@pytest.mark.parametrize(
    ("text", "width"),
    [("", 0), ("float x;", 8), ("größe", 5), ("値段", 4), ("e\u0301", 1), ("a\u200bb", 2), ("ｆ", 2), ("🙂", 2)],
)
def test_cells(text, width):
    assert cells(text) == width


@pytest.mark.parametrize(
    ("text", "expanded"),
    [("\tx", "    x"), ("ab\tc", "ab  c"), ("abcd\te", "abcd    e"), ("値\tx", "値  x"), ("a\x1b[31mb", "a [31mb")],
)
def test_tabs_and_control_characters(text, expanded):
    assert expand(text) == expanded


@pytest.mark.parametrize(
    ("line", "start", "end", "width", "shown", "carets"),
    [
        ("    y[i] = x;", 4, 13, 80, "y[i] = x;", "^^^^^^^^^"),
        ("\ty[i] = x;\t// why", 1, 5, 80, "y[i] = x;   // why", "^^^^"),
        ("a\tb = c;", 2, 3, 80, "a   b = c;", "    ^"),
        ('f("値段", x);', 8, 9, 80, 'f("値段", x);', "          ^"),
        ("y = 1;", 6, 6, 80, "y = 1;", "      ^"),
        ("y = 1;", 40, 50, 80, "y = 1;", "      ^"),
        ("  y", 0, 3, 80, "  y", "^^^"),
    ],
)
def test_frame(line, start, end, width, shown, carets):
    assert frame(line, start, end, width) == (shown, carets)


@pytest.mark.parametrize("start", [0, 10, 200, 390])
@pytest.mark.parametrize("length", [1, 9, 150])
@pytest.mark.parametrize("width", [20, 40, 80])
def test_a_long_line_is_cut_around_the_underline(start, length, width):
    line = "".join(f"<{index:03}>" for index in range(100))
    shown, carets = frame(line, start, start + length, width)
    assert cells(shown) <= width
    assert cells(carets) <= width
    part = line[start : start + length]
    under = shown[len(carets) - len(carets.lstrip()) : len(carets)]
    assert part.startswith(under.removesuffix("..."))
    assert under[:1] == part[:1]


def test_cut_counts_cells():
    assert cut("値段値段値段", 9) == "値段値..."
    assert cut("short", 9) == "short"


def test_element_table():
    elements = [{"index": [0, index], "expected": 1.5, "actual": float("nan")} for index in range(8)]
    lines = element_table({"elements": elements, "count": 40})
    assert lines[0].split() == ["element", "expected", "actual"]
    assert lines[1].split() == ["[0,", "0]", "1.5", "nan"]
    assert lines[-1] == "... and 34 more"


@pytest.mark.parametrize("data", [{}, {"elements": []}, {"elements": [{"index": [1]}]}, {"elements": "no"}])
def test_no_table_without_several_elements(data):
    assert element_table(data) == []


@pytest.fixture
def source(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text("line one\n\tline two\nline three\n")
    return path.as_posix()


def finding(source, rule="memory/out-of-bounds", kernel="k", line=0, **fields):
    return make(rule, f"about {rule}", Place(source, Range.of(line, 0, line, 4)), kernel=kernel, **fields)


def run_of(source, findings, *names, stored=()):
    root = source.rpartition("/")[0]
    reports = tuple(KernelReport(name, source, "failed", True, cases=CaseCount(3, 1)) for name in names)
    return Run(root, reports, tuple(findings), stored=frozenset(stored))


def test_grouped_by_kernel_errors_first(source):
    findings = [
        finding(source, "numeric/regression", "a"),
        finding(source, "sync/hang", "b"),
        finding(source, "memory/misaligned", "a", line=1),
        finding(source, "config/unknown-key", None),
    ]
    text = render_text(run_of(source, findings, "a", "b"))
    order = [
        text.index(rule) for rule in ("config/unknown-key", "memory/misaligned", "numeric/regression", "sync/hang")
    ]
    assert order == sorted(order)


def test_number_of_findings_is_limited(source):
    findings = [finding(source, line=index % 3, case=str(index)) for index in range(40)]
    text = render_text(run_of(source, findings, "k"))
    assert text.count("[memory/out-of-bounds]") == 12
    assert "... and 28 more findings in k" in text
    assert "40 errors" in text


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        ((), []),
        (("k",), ["gpuemu reproduce 77"]),
        (("k", "l"), ["gpuemu reproduce 77 -k k", "gpuemu reproduce 77 -k l"]),
    ],
)
def test_reproduce_once_per_failing_kernel(source, stored, expected):
    findings = [finding(source, case="77"), finding(source, line=1, case="78"), finding(source, kernel="l", case="77")]
    text = render_text(run_of(source, findings, "k", "l", stored=stored))
    assert re.findall(r"gpuemu reproduce .*", text) == expected


def test_warnings_have_no_reproduce_command(source):
    text = render_text(run_of(source, [finding(source, "numeric/regression", case="77")], "k", stored=("k",)))
    assert "Reproduce" not in text


def test_underline_and_related_locations(source):
    there = Related(Place(source, Range.of(2, 5, 2, 10)), "the other access")
    text = render_text(run_of(source, [finding(source, line=1, related=(there,), dims={"n": 3})], "k"))
    assert "k.cu:2:1: error[memory/out-of-bounds]" in text
    assert "  2 |     line two" in text
    assert "    | ^^^^" in text
    assert "k.cu:3:6: the other access" in text
    assert "k, n = 3" in text


@pytest.mark.parametrize("hints", [False, True])
def test_hints_only_on_demand(source, hints):
    text = render_text(run_of(source, [finding(source, "config/launch-inferred")], "k"), TextStyle(hints=hints))
    assert ("config/launch-inferred" in text) == hints


def test_colours_only_on_demand(source):
    run = run_of(source, [finding(source)], "k")
    assert "\x1b" not in render_text(run)
    coloured = render_text(run, TextStyle(colour=True))
    assert "\x1b[" in coloured
    assert re.sub(r"\x1b\[\d+m", "", coloured) == render_text(run)


def test_ascii_terminals_get_no_symbols(source):
    text = render_text(run_of(source, [], "k"), TextStyle(unicode=False))
    assert text.isascii()
    assert "failed" in text


def test_a_message_wraps_but_toml_does_not(source):
    message = f"{'word ' * 30}\nx = {{ in = {['rows'] * 20} }}"
    long = make("config/ambiguous-signature", message, Place(source, Range.of(0, 0, 0, 1)), kernel="k")
    lines = render_text(run_of(source, [long], "k"), TextStyle(width=50)).split("\n")
    assert all(len(line) <= 50 for line in lines if "word" in line)
    assert sum("x = {" in line and line.endswith("}") for line in lines) == 1


def test_a_missing_source_file_is_not_an_error(tmp_path):
    missing = (tmp_path / "gone.cu").as_posix()
    text = render_text(run_of(missing, [finding(missing)], "k"))
    assert "gone.cu:1:1" in text


def test_an_escape_sequence_in_the_source_does_not_reach_the_terminal(tmp_path):
    path = tmp_path / "k.cu"
    path.write_text("// \x1b]0;title\x07 \x1b[31m\n")
    assert "\x1b" not in render_text(run_of(path.as_posix(), [finding(path.as_posix())], "k"))


def test_summary_counts_add_up(source):
    statuses = ["passed", "passed", "failed", "error", "unreferenced", "not-executed"]
    kernels = tuple(KernelReport(f"k{i}", source, status, True) for i, status in enumerate(statuses))
    last = render_text(Run("/", kernels, (finding(source),), seconds=2.0)).splitlines()[-1]
    assert last == (
        "6 kernels: 2 passed, 1 failed, 1 could not be checked, 1 without a reference (no numbers compared), 1 not executed; "
        "1 error, 0 warnings (2.0 s)"
    )


@pytest.mark.parametrize(
    ("kinds", "text"),
    [
        (("ops",), "1 op: "),
        (("ops", "ops"), "2 ops: "),
        (("cuda", "ops", "ops"), "1 kernel and 2 ops: "),
        ((), "0 kernels: "),
    ],
)
def test_the_summary_says_what_was_checked(source, kinds, text):
    kernels = tuple(KernelReport(f"k{i}", source, "passed", True, language=kind) for i, kind in enumerate(kinds))
    assert render_text(Run("/", kernels, ())).splitlines()[-1].startswith(f"{text}{len(kinds)} passed, 0 failed")


@pytest.mark.parametrize(
    ("status", "cases", "text"),
    [
        ("passed", CaseCount(8, 8), "8 of 8 cases"),
        ("failed", CaseCount(8, 5), "3 of 8 cases fail"),
        ("failed", CaseCount(1, 0), "1 of 1 case fails"),
        ("failed", CaseCount(8, 8), "8 of 8 cases"),
        ("error", CaseCount(3, 1), "1 of 3 cases"),
        ("unreferenced", CaseCount(8, 8, 3), "5 of 8 cases clean (n a multiple of 4)"),
    ],
)
def test_cases_of_a_failing_kernel_are_those_that_fail(status, cases, text):
    assert cases_text(KernelReport("k", "/k.cu", status, True, cases=cases, clean_at=CleanSizes("n", 4))) == text


@pytest.mark.parametrize("kernel", ["k", None], ids=["its own", "of its file"])
def test_a_kernel_that_did_not_run_gives_its_reason_on_one_line(source, kernel):
    hint = make(
        "engine/not-executed",
        "'k' was compiled but not run: no size.\n[[kernels]]",
        Place(source, Range.of(0, 0, 0, 4)),
        kernel=kernel,
        severity=Severity.HINT,
    )
    run = replace(run_of(source, [hint]), kernels=(KernelReport("k", source, "not-executed", True, registered=False),))
    text = render_text(run)
    assert text.splitlines()[1] == "    'k' was compiled but not run: no size."
    assert render_text(run, TextStyle(hints=True)).count("no size") == 1
