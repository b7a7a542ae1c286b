"""The command: rows in the order of the answers, four formats, exit codes, and what an earlier run has judged."""

from __future__ import annotations

import csv
import io
import json
import shlex
import signal
import subprocess
import sys
from dataclasses import replace

import pytest
from judge.test_hacks import ANSWER, TASK

from gpuemu.judge.command import run
from gpuemu.judge.earlier_rows import EarlierRows
from gpuemu.judge.layouts import find_answers
from gpuemu.judge.model import Row, Verdict
from gpuemu.judge.report import record

WRONG = ANSWER.replace("tl.exp(-x)", "tl.exp(x)")


@pytest.fixture
def folder(tmp_path):
    for name, text in {"a_right": ANSWER, "b_wrong": WRONG}.items():
        (tmp_path / name).mkdir()
        (tmp_path / name / "solution.py").write_text(text)
        (tmp_path / name / "reference.py").write_text(TASK)
    return tmp_path


def test_reports_of_two_answers(folder):
    lines = []
    judged = run([folder], [], "json", lines.append, jobs=2, seconds=120)
    assert judged.exit_code == 1
    document = json.loads(judged.text)
    assert [row["verdict"] for row in document["rows"]] == ["same", "differs"]
    assert document["summary"] == {"same": 1, "differs": 1}
    assert document["rows"][0]["accepted"] == {"1e-2": True, "1e-4": True}
    assert document["rows"][1]["accepted"] == {"1e-2": False, "1e-4": False}
    assert [line.partition(":")[0] for line in lines] == ["1 of 2", "2 of 2"]


@pytest.mark.parametrize(("form", "parse"), [("csv", True), ("markdown", False), ("text", False)])
def test_other_formats(folder, form, parse):
    judged = run([folder / "a_right"], [], form, lambda _: None, jobs=1, seconds=120)
    assert judged.exit_code == 0
    assert "a_right" in judged.text
    if parse:
        (row,) = csv.DictReader(io.StringIO(judged.text))
        assert row["verdict"] == "same"


def test_no_answer(tmp_path):
    judged = run([tmp_path / "x.py"], [], "text", lambda _: None, jobs=1, seconds=1)
    assert (judged.exit_code, judged.text) == (2, "")
    assert "No such file" in judged.problem


def test_what_an_earlier_run_has_judged_is_not_judged_again(folder, tmp_path, monkeypatch):
    rows = tmp_path / "rows.jsonl"
    first = run([folder / "a_right"], [], "json", lambda _: None, jobs=1, seconds=120, resume=rows)
    # A run that was killed while it wrote a row.
    rows.write_text(f"{rows.read_text()}{{")
    monkeypatch.setattr("gpuemu.judge.command.judge", None)
    again = run([folder / "a_right"], [], "json", lambda _: None, jobs=1, seconds=120, resume=rows)
    assert again == first
    with pytest.raises(TypeError):
        run([folder], [], "json", lambda _: None, jobs=1, seconds=120, resume=rows)
    assert len(rows.read_text().splitlines()) == 1


def test_an_answer_that_was_changed_is_another_one(folder, tmp_path):
    answer, _ = find_answers([folder], [])
    with EarlierRows(tmp_path / "rows.jsonl") as earlier:
        earlier.add(answer, {"verdict": "same"})
        earlier.add(replace(answer, model="Model"), {"verdict": "not judged"})
    with EarlierRows(tmp_path / "rows.jsonl") as earlier:
        assert earlier.row(answer) == {"verdict": "same"}
        assert earlier.row(replace(answer, model="Model")) is None
        answer.path.write_text(WRONG)
        assert earlier.row(answer) is None


def test_a_file_of_something_else_is_left_as_it_is(folder, tmp_path):
    rows = tmp_path / "notes.txt"
    for text in ("a\nb\n", "a"):
        rows.write_text(text)
        judged = run([folder], [], "text", lambda _: None, jobs=1, seconds=1, resume=rows)
        assert (judged.exit_code, rows.read_text()) == (2, text)
        assert "notes.txt:1: not a row of an earlier run" in judged.problem


def test_the_names_that_are_asked_for(folder):
    judged = run([folder], [], "text", lambda _: None, jobs=1, seconds=1, only=["c/solution.py"])
    assert (judged.exit_code, judged.problem) == (2, "no answer is called c/solution.py")


def test_the_command_that_judges_an_answer_again(folder):
    answer, _ = find_answers([folder], [])
    words = shlex.split(record(Row(answer, Verdict.SAME, ""))["reproduce"])
    assert words == ["gpuemu", "judge", str(answer.path), "--reference", str(answer.task)]
    (again,) = find_answers([answer.path], [answer.task])
    assert again.task == answer.task


def test_a_judge_that_is_ended_says_how_many_answers_it_has_judged(folder, tmp_path):
    endless = folder / "b_wrong" / "solution.py"
    endless.write_text(
        ANSWER.replace(
            "class ModelNew", "print(open('started', 'w').close())\nwhile True:\n    pass\n\n\nclass ModelNew"
        )
    )
    words = ["-m", "gpuemu_lsp.cli.gpuemu", "judge", folder, "--jobs", "2", "--resume", tmp_path / "rows.jsonl"]
    with subprocess.Popen([sys.executable, *map(str, words)], stderr=subprocess.PIPE, text=True) as judge:
        assert "1 of 2" in judge.stderr.readline()
        judge.send_signal(signal.SIGTERM)
        errors = judge.stderr.read()
    assert judge.returncode == 130
    assert errors == f"gpuemu: interrupted; 1 answer was judged: name {tmp_path / 'rows.jsonl'} once more to go on\n"
    assert len((tmp_path / "rows.jsonl").read_text().splitlines()) == 1
