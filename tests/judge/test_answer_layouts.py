"""Answers and their tasks are found where benchmarks keep them."""

from __future__ import annotations

import json

import pytest

from gpuemu.judge.layouts import NoAnswerError, find_answers

TASK = "class Model:\n    pass\n\n\ndef get_inputs():\n    return []\n"
ANSWER = "class ModelNew:\n    pass\n"


@pytest.fixture
def tree(tmp_path):
    def write(**files):
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        return tmp_path

    return write


def pairs(answers, root):
    return [(str(one.path.relative_to(root)), str(one.task.relative_to(root))) for one in answers]


def test_runs_of_kernelbench(tree):
    root = tree(
        **{
            "KernelBench/level1/2_Matmul.py": TASK,
            "KernelBench/level1/10_Other.py": TASK,
            "runs/x/level_1_problem_10_sample_0_kernel.py": ANSWER,
            "runs/x/level_1_problem_2_sample_0_kernel.py": ANSWER,
        }
    )
    expected = [
        ("runs/x/level_1_problem_2_sample_0_kernel.py", "KernelBench/level1/2_Matmul.py"),
        ("runs/x/level_1_problem_10_sample_0_kernel.py", "KernelBench/level1/10_Other.py"),
    ]
    assert pairs(find_answers([root / "runs"], []), root) == expected
    assert pairs(find_answers([root / "runs"], [root / "KernelBench"]), root) == expected


def test_one_file_with_both(tree):
    root = tree(**{"pair.py": TASK + ANSWER})
    assert pairs(find_answers([root], []), root) == [("pair.py", "pair.py")]


@pytest.mark.parametrize(("answer", "task"), [("solution.py", "reference.py"), ("custom_code.py", "ref_code.py")])
def test_files_side_by_side(tree, answer, task):
    root = tree(**{f"01_moe/{answer}": ANSWER, f"01_moe/{task}": TASK})
    (found,) = find_answers([root], [])
    assert found.name == f"01_moe/{answer}"
    assert found.task == root / "01_moe" / task


def test_answers_called_model_in_a_folder_next_to_the_tasks(tree):
    root = tree(**{"tasks/level_1/task_3.py": TASK, "best_agent_solutions/level_1/task_3.py": TASK})
    (found,) = find_answers([root / "best_agent_solutions"], [])
    assert (found.model, found.task) == ("Model", root / "tasks/level_1/task_3.py")


def test_names_have_the_folders_in_which_answers_differ(tree):
    pair = TASK + ANSWER
    root = tree(**{"a/x/solution.py": pair, "b/x/solution.py": pair, "b/y/solution.py": pair, "b/z.py": pair})
    names = [answer.name for answer in find_answers([root], [])]
    assert names == ["a/x/solution.py", "b/x/solution.py", "y/solution.py", "z.py"]


def test_a_reference_that_is_named(tree):
    root = tree(**{"mine.py": ANSWER, "their.py": TASK})
    assert pairs(find_answers([root / "mine.py"], [root / "their.py"]), root) == [("mine.py", "their.py")]


def test_json_lines(tree):
    lines = "\n".join(json.dumps({"custom_code": ANSWER, "ref_code": TASK, "task_id": one}) for one in (1, 2))
    root = tree(**{"answers.jsonl": lines})
    answers = find_answers([root / "answers.jsonl"], [])
    assert [one.name for one in answers] == ["answers.jsonl:1", "answers.jsonl:2"]
    (written,) = answers[0].in_files(root)
    assert (written.path.read_text(), written.task.read_text()) == (ANSWER, TASK)


@pytest.mark.parametrize(
    ("files", "words"),
    [
        ({"a.py": ANSWER}, "no task was found for this answer: name it with --reference"),
        ({"a.py": "x = 1\n"}, "no file with `class ModelNew`, nor an answer of another benchmark"),
    ],
)
def test_what_is_missing_is_said(tree, files, words):
    root = tree(**files)
    with pytest.raises(NoAnswerError, match=words.replace("(", r"\(")):
        find_answers([root], [])


def test_a_path_that_does_not_exist(tmp_path):
    with pytest.raises(NoAnswerError, match="No such file"):
        find_answers([tmp_path / "nothing"], [])


def problems(answers):
    return {one.name: one.problem for one in answers}


def test_an_answer_without_a_task_is_among_the_others(tree):
    """Each answer has a row, also one that cannot be judged."""
    root = tree(**{"a.py": ANSWER, "b.py": TASK + ANSWER, "other.py": "x = 1\n"})
    found = problems(find_answers([root], []))
    assert found.keys() == {"a.py", "b.py"}
    assert "no task was found" in found["a.py"]
    assert found["b.py"] == ""


def test_a_file_that_is_named_is_among_the_others(tree):
    root = tree(**{"pair.py": TASK + ANSWER, "wrong.json": "{"})
    found = problems(find_answers([root / "pair.py", root / "wrong.json"], []))
    assert found.keys() == {"pair.py", "wrong.json"}
    assert "nor an answer of another benchmark" in found["wrong.json"]


def test_each_record_of_json_is_among_the_others(tree):
    pair = {"custom_code": ANSWER, "ref_code": TASK}
    lines = [json.dumps(pair), "", '{"custom_code": "', json.dumps({"custom_code": ANSWER}), json.dumps(pair)]
    found = problems(find_answers([tree(**{"x.jsonl": "\n".join(lines)})], []))
    assert found == {
        "x.jsonl:1": "",
        "x.jsonl:3": "this record cannot be read: it is not JSON",
        "x.jsonl:4": "this record cannot be read: it has no text under `ref_code`",
        "x.jsonl:5": "",
    }


@pytest.mark.parametrize(("value", "names"), [(1, ["x.json"]), (2, ["x.json:1", "x.json:2"])])
def test_json_that_is_one_record_or_a_list(tree, value, names):
    pair = {"solution": ANSWER, "reference": TASK}
    text = json.dumps(pair if value == 1 else [pair] * value, indent=1)
    assert [one.name for one in find_answers([tree(**{"x.json": text})], [])] == names
