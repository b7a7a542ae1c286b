"""The command: rows in the order of the answers, four formats, exit codes, and what an earlier run has judged."""

from __future__ import annotations

import csv
import io
import json

import pytest
from judge.test_hacks import ANSWER, TASK

from gpuemu.judge.command import run

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
