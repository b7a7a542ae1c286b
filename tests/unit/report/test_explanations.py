"""Explanations as text and JSON, and where they are announced."""

from __future__ import annotations

from gpuemu_lsp.engine.check.model import Replay, Why
from gpuemu_lsp.engine.debug.explanation import Chain, Explanation, ShownAccess, ShownValue, Step
from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.report.explanations import explanation_record, render_explanation
from gpuemu_lsp.engine.report.replays import render_replay
from gpuemu_lsp.engine.report.text import TextStyle

STEP = Step(
    Place("/p/k.cu", Range.of(8, 4, 8, 20)),
    "s[t] += s[t + half];",
    "index",
    (3, 0, 0),
    40,
    times=6,
    threads=2,
    values=(ShownValue("half", 1, (4, 2)),),
    accesses=(ShownAccess("s[3]", 0.5, origin="never written"), ShownAccess("s[3]", 1.25, "write")),
)
EXPLAINED = Why(
    "k",
    "float32",
    "7",
    "still fails",
    explanation=Explanation((Chain("it comes from", (STEP,), ("a remark",)),), (1, 0, 0), named=False),
)


def test_a_step_has_its_line_thread_values_and_accesses():
    text = render_explanation(EXPLAINED, "/p", TextStyle())
    assert "    9 | s[t] += s[t + half];\n" in text
    assert "thread (3, 0, 0) of 2, 6 times [for an index], half = 1 (before: 4, 2)" in text
    assert "reads s[3] = 0.5, never written" in text and "writes s[3] = 1.25" in text
    assert "note: a remark" in text and "variables are not shown" in text


def test_the_record_has_numbers_and_paths_relative_to_the_project():
    record = explanation_record(EXPLAINED, "/p")
    assert record["block"] == [1, 0, 0] and record["names"] is False
    (step,) = record["chains"][0]["steps"]
    assert (step["file"], step["line"], step["time"], step["executions"]) == ("k.cu", 9, 40, 6)
    assert step["values"] == [{"name": "half", "value": 1, "before": [4, 2]}]
    assert [access["access"] for access in step["accesses"]] == ["read", "write"]


def test_a_case_without_an_explanation_says_why_there_is_none():
    text = render_explanation(Why("k", "float32", "7", "fixed", problem="it no longer fails"), "/p", TextStyle())
    assert text == "k (float32), case 7\n  Not explained: it no longer fails.\n"


def test_a_case_that_still_fails_names_the_command_that_explains_it():
    replay = Replay("k", "float32", "7", "still fails", "numeric/nan", "y[0] is NaN")
    assert "Why: gpuemu why 7 -k k\n" in render_replay(replay, "/p", TextStyle())
    fixed = Replay("k", "float32", "7", "fixed", "numeric/nan", "y[0] is NaN")
    assert "gpuemu why" not in render_replay(fixed, "/p", TextStyle())
