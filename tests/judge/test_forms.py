"""Answers of benchmarks that do not call them ModelNew: their texts as modules, and the settings that are tried."""

from __future__ import annotations

import json

import pytest

from gpuemu.judge.earlier_rows import EarlierRows
from gpuemu.judge.forms.settings import varied
from gpuemu.judge.judgement import judge
from gpuemu.judge.layouts import NoAnswerError, find_answers
from gpuemu.judge.literals import size_literals
from gpuemu.judge.model import Verdict
from gpuemu.judge.task import load_task

TRITON = """\
import torch
import triton
import triton.language as tl


@triton.jit
def scale(x, y, n, BLOCK: tl.constexpr):
    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    tl.store(y + i, 2.0 * tl.load(x + i, mask=i < n), mask=i < n)
"""
SUBMISSION = f"""\
{TRITON}
from utils import rounded_up


def custom_kernel(data):
    x, y = data
    scale[(rounded_up(x.numel(), 64),)](x, y, x.numel(), BLOCK=64)
    return y
"""
REFERENCE = """\
import torch
from utils import rounded_up


def generate_input(size: int, seed: int):
    generator = torch.Generator(device="cuda")
    generator.manual_seed(seed)
    x = torch.empty(size, device="cuda")
    x.normal_(0, 1, generator=generator)
    return x, torch.empty_like(x)


def ref_kernel(data):
    x, y = data
    y[...] = 2 * x
    return y
"""
UTILS = "def rounded_up(size, tile):\n    return (size + tile - 1) // tile\n"


def write(folder, files):
    for name, text in files.items():
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text if isinstance(text, str) else json.dumps(text))
    return folder


def problem(folder, submission, size):
    tests = f'tests:\n  - {{"size": {size}, "seed": 1}}\n'
    problem_files = {"task.yml": tests, "reference.py": REFERENCE, "utils.py": UTILS}
    return write(folder, {**problem_files, "submission.py": submission})


def only_row(folder, references=()):
    (answer,) = find_answers([folder], references)
    return judge(answer, 120.0)


def test_a_submission_to_kernelbot(tmp_path):
    row = only_row(problem(tmp_path, SUBMISSION, 256))
    assert row.verdict is Verdict.SAME, row
    # The output is among the data, so that filling it is not a change of an input.
    assert row.reason == "compared at 256, 256"


def test_a_submission_whose_problem_was_changed_is_judged_again(tmp_path):
    """Its task is a folder."""
    rows = tmp_path / "rows.jsonl"
    folder = problem(tmp_path / "problem", SUBMISSION, 256)
    with EarlierRows(rows) as earlier:
        (answer,) = find_answers([folder], [])
        earlier.add(answer, {"verdict": "same"})
    with EarlierRows(rows) as earlier:
        assert earlier.row(answer) == {"verdict": "same"}
        write(folder, {"reference.py": REFERENCE.replace("2 * x", "3 * x")})
        (answer,) = find_answers([folder], [])
        assert earlier.row(answer) is None


def test_findings_in_a_submission_are_on_its_lines(tmp_path):
    row = only_row(problem(tmp_path, SUBMISSION.replace(", mask=i < n)\n", ")\n"), 127))
    assert row.verdict is Verdict.UNSAFE, row
    (finding,) = row.findings
    assert (finding["path"], finding["range"]["start"]["line"]) == (str(tmp_path / "submission.py"), 8)
    assert " at submission.py:" in row.reason


def definition(shape):
    axes = {"M": {"type": "var"}, "N": {"type": "const", "value": 96}}
    tensor = {"shape": shape, "dtype": "float16"}
    reference = "import torch\n\ndef run(X):\n    return 2 * X\n"
    return {"name": "scale", "axes": axes, "inputs": {"X": tensor}, "outputs": {"Y": tensor}, "reference": reference}


def solution(call, **spec):
    content = f"{TRITON}\n\ndef run(X, Y):\n    {call}\n"
    sources = [{"path": "main.py", "content": content}]
    return {"name": "s", "definition": "scale", "spec": {"entry_point": "main.py::run", **spec}, "sources": sources}


CALL = "scale[(triton.cdiv(X.numel(), 64),)](X, Y, X.numel(), BLOCK=64)"
WORKLOAD = json.dumps({"workload": {"axes": {"M": 64}, "inputs": {}}})


def flashinfer(folder, text):
    files = {"definitions/x/scale.json": definition(["M", "N"]), "workloads/x/scale.jsonl": WORKLOAD}
    return write(folder, {**files, "solutions/scale/s.json": text})


def test_a_solution_of_flashinfer_bench(tmp_path):
    row = only_row(flashinfer(tmp_path, solution(CALL)) / "solutions")
    assert row.verdict is Verdict.SAME, row
    assert row.reason == "compared at 64x96"


def test_a_solution_that_returns_its_result(tmp_path):
    call = f"Y = torch.zeros_like(X)\n    {CALL}\n    return Y + 1"
    text = solution(call, destination_passing_style=False)
    text["sources"][0]["content"] = text["sources"][0]["content"].replace("run(X, Y)", "run(X)")
    row = only_row(flashinfer(tmp_path, text) / "solutions")
    assert row.verdict is Verdict.DIFFERS, row


def test_bindings_that_are_not_supported_are_said(tmp_path):
    text = solution("pass", entry_point="main.cu::run", language="cuda")
    text["sources"][0]["path"] = "main.cu"
    row = only_row(flashinfer(tmp_path, text) / "solutions")
    assert row.verdict is Verdict.NOT_JUDGED
    assert "binding tvm-ffi" in row.reason


def test_values_that_a_workload_stores_are_not_drawn_at_random(tmp_path):
    record = definition(["M", "N"])
    record["inputs"]["X"]["dtype"] = "int32"
    root = write(tmp_path, {"definitions/scale.json": record, "solutions/s.json": solution(CALL)})
    row = only_row(root / "solutions")
    assert row.verdict is Verdict.NOT_JUDGED
    assert "input X of int32" in row.reason


FUNCTION = """\
import torch
import torch.nn as nn


class AutogradFunction(torch.autograd.Function):
    backward_fn = None


def forward_fn(x, weight):
    return x @ weight


class Model(nn.Module):
    def __init__(self, features: int = 512, init_method: str = "normal"):
        super(Model, self).__init__()
        self.weight = nn.Parameter(torch.ones(features, features))

    def forward(self, x, fn=forward_fn):
        return fn(x, self.weight)


def get_inputs(batch_size: int = 16, features: int = 512):
    return [torch.randn(batch_size, features)]
"""
CONFIG = {
    "single_input_configs": [{"batch_size": 4}],
    "single_init_configs": [{}],
    "single_shared_configs": [{"features": 8}],
}


@pytest.mark.parametrize(("name", "results"), [("forward", [(4, 8)]), ("backward", [(4, 8), (8, 8)])])
def test_the_task_of_an_extension_has_its_settings(tmp_path, name, results):
    extension = f'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) {{ m.def("{name}", &{name}); }}'
    files = {f"tasks/linear/func_{name}.py": FUNCTION, f"tasks/linear/config_{name}.json": CONFIG}
    write(tmp_path, {**files, "answers/linear/kernel.cu": extension})
    (answer,) = find_answers([tmp_path / "answers"], [tmp_path / "tasks"])
    assert answer.task == tmp_path / "tasks" / "linear" / f"func_{name}.py"
    assert extension in answer.in_files(tmp_path / "work")[0].all_text
    task = load_task(answer.texts.tasks[0], "task.py", {}, answer.texts.task_model)
    assert [one.value for one in size_literals(answer.texts.tasks[0]) if one.name.startswith("task_")] == [4, 8]
    output = task.constructed(1)(*task.inputs())
    assert [tuple(one.shape) for one in (output if name == "backward" else [output])] == results


def test_settings_that_differ_in_sizes_are_the_largest_and_the_least_even():
    settings = [{"size": size, "mode": mode} for mode in ("a", "b") for size in (64, 128, 100, 33)]
    assert [(one["size"], one["mode"]) for one in varied(settings)] == [(128, "a"), (33, "a"), (128, "b"), (33, "b")]


def test_a_task_that_cannot_be_read_is_named(tmp_path):
    problem(tmp_path, SUBMISSION, 256)
    for text, words in (("name: x\n", "task.yml: no key `tests`"), ("tests: [\n", "task.yml:2: is not YAML: ")):
        (tmp_path / "task.yml").write_text(text)
        with pytest.raises(NoAnswerError, match=words):
            find_answers([tmp_path], [])


@pytest.mark.parametrize(
    "wrong",
    [
        {"definition": "absent", "spec": {"entry_point": "main.py::run"}, "sources": []},
        {"definition": "scale", "spec": {"entry_point": "main.py::run"}},
        {"definition": "scale", "spec": {"entry_point": "other.py::run"}, "sources": []},
        '{"definition": "scale", "spec": {"entry_point": "main.py::run"}, "sources": [',
    ],
    ids=["no definition", "no sources", "no entry point", "not JSON"],
)
def test_each_solution_has_a_row(tmp_path, wrong):
    files = {"definitions/scale.json": definition(["M", "N"]), "solutions/right.json": solution(CALL)}
    write(tmp_path, {**files, "solutions/wrong.json": wrong})
    right, other = find_answers([tmp_path / "solutions"], [])
    assert (right.name, right.problem) == ("right.json", "")
    assert other.name == "wrong.json"
    row = judge(other, 1.0)
    assert (row.verdict, row.reason) == (Verdict.NOT_JUDGED, other.problem)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({("solutions/scale/s.json", "spec"): {}}, "solutions/scale/s.json: no key `entry_point` in spec"),
        (
            {("solutions/scale/s.json", "sources"): [{"path": "main.py"}]},
            "solutions/scale/s.json: no key `content` in sources[0]",
        ),
        (
            {("solutions/scale/s.json", "sources"): [{"path": "../main.py", "content": ""}]},
            "solutions/scale/s.json: sources[0].path is ../main.py, which is not in the folder of the solution",
        ),
        (
            {("definitions/x/scale.json", "axes"): {"M": {"type": "const"}}},
            "definitions/x/scale.json: no key `value` in axes.M",
        ),
        (
            {("definitions/x/scale.json", "outputs"): {"Y": {"shape": ["Q"], "dtype": "float32"}}},
            "definitions/x/scale.json: outputs.Y.shape[0] is Q, which is none of the axes",
        ),
        (
            {("workloads/x/scale.jsonl", "workload"): {"axes": {"M": "many"}}},
            "workloads/x/scale.jsonl: line 1.workload.axes.M is not a positive integer",
        ),
    ],
)
def test_what_cannot_be_read_is_named_by_its_file_and_key(tmp_path, changes, words):
    root = flashinfer(tmp_path, solution(CALL))
    for (name, key), value in changes.items():
        record = json.loads((root / name).read_text())
        write(root, {name: {**record, key: value}})
    with pytest.raises(NoAnswerError) as raised:
        find_answers([root / "solutions"], [])
    assert str(raised.value).endswith(words)


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ("{", "config_forward.json: is not JSON: "),
        ({"single_init_configs": {"features": 8}}, "config_forward.json: single_init_configs is not a list"),
        ({"multi_input_configs": [{"rows": 8}]}, "multi_input_configs[0].rows is not an argument of get_inputs"),
    ],
)
def test_settings_that_cannot_be_read_are_named(tmp_path, config, words):
    extension = 'PYBIND11_MODULE(TORCH_EXTENSION_NAME, m) { m.def("forward", &forward); }'
    write(tmp_path, {"func_forward.py": FUNCTION, "config_forward.json": config, "forward.cu": extension})
    with pytest.raises(NoAnswerError) as raised:
        find_answers([tmp_path], [])
    assert words in str(raised.value)


def test_the_shapes_that_a_file_lists(tmp_path):
    reference = (
        "class Model:\n    pass\n\n\nBATCH = 8\nhidden = 64\n\n\ndef get_inputs():\n    return [BATCH, hidden]\n"
    )
    shapes = "SHAPES = [\n    {'batch': 32, 'hidden': 128, 'extreme': False},\n    {'batch': 7, 'hidden': 128},\n]\n"
    files = {"x/reference.py": reference, "x/shapes.py": shapes, "x/solution.py": "class Model:\n    pass\n"}
    (answer,) = find_answers([write(tmp_path, files)], [])
    assert [text.partition("BATCH = ")[2].split()[0] for text in answer.texts.tasks] == ["32", "7"]
    assert all("hidden = 128" in text for text in answer.texts.tasks)
    first, _ = answer.in_files(tmp_path / "work")
    assert (first.path, first.task.read_text()) == (answer.path, answer.texts.tasks[0])
