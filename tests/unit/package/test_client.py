"""The client in process: operations of gpuemu.toml against their references."""

from __future__ import annotations

import numpy as np
import pytest

import gpuemu
from gpuemu.client import Client
from gpuemu.ops.cases import NoSchemaError
from gpuemu.validate import ValidationError, validate_op
from tests.unit.subjects.test_ops import ENTRY, write

_TOML = """
[project]
name = "ops"

[[ops]]
name = "softmax"
reference = "ref.py:softmax"
op = "library:softmax"
[ops.dims]
rows = { max = 9 }
cols = { max = 40 }
[ops.args]
x = { in = ["rows", "cols"] }
y = { out = ["rows", "cols"] }

[[ops]]
name = "matmul"
reference = "ref.py:matmul"
input_names = ["a", "b"]

[[ops]]
name = "pair"
reference = "ref.py:matmul"
input_names = ["a", "c"]

[[ops]]
name = "masked"
reference = "ref.py:masked"
[ops.tolerances]
float32 = 0.5
[ops.invariants]
non_negative = true

[[ops]]
name = "broken_reference"
reference = "ref.py:broken"
"""
_REFERENCE = """
import numpy as np

def softmax(inputs, **kwargs):
    x = inputs["x"]
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)

def matmul(inputs, **kwargs):
    return inputs["a"] @ inputs["b"]

def masked(inputs, **kwargs):
    return inputs["x"] * (0 if kwargs.get("causal", "false").lower() == "true" else 1)

def broken(inputs, **kwargs):
    raise KeyError("nothing")
"""
_LIBRARY = """
import numpy as np

def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return (e / e.sum(-1, keepdims=True)).astype(x.dtype)
"""


def _softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def _tail(inputs):
    result = _softmax(inputs["x"])
    result[:, 16:] *= 1.01
    return result


@pytest.fixture
def client(tmp_path, monkeypatch):
    (tmp_path / "gpuemu.toml").write_text(_TOML)
    (tmp_path / "ref.py").write_text(_REFERENCE)
    (tmp_path / "library.py").write_text(_LIBRARY)
    monkeypatch.chdir(tmp_path)
    with Client() as client:
        yield client


def test_a_right_and_a_wrong_output(client):
    x = np.random.default_rng(0).standard_normal((4, 33)).astype(np.float32)
    assert client.validate_op("softmax", {"x": x}, _softmax(x)).passed
    result = client.validate_op("softmax", {"x": x}, _softmax(x) * np.float32(1.001))
    assert not result.passed
    (failure,) = result.failures
    assert failure["kind"] == "ToleranceExceeded"
    assert failure["actual"] == pytest.approx(failure["expected"], rel=2e-3)
    assert result.max_rel_diff == pytest.approx(1e-3, rel=0.1)
    assert client.get_result(result.seed) is result
    assert client.list_failures()[0].case == str(result.seed)


def test_kinds(client):
    x = np.ones((2, 3), np.float32)
    kind = lambda *args, **more: client.validate_op(*args, **more).failures[0]["kind"]  # noqa: E731
    assert kind("softmax", {"x": x}, _softmax(x)[:1]) == "ShapeMismatch"
    assert kind("softmax", {"x": x}, _softmax(x) * np.nan) == "NaNDetected"
    assert kind("masked", {"x": -x}, -x) == "InvariantViolation"
    assert kind("broken_reference", {"x": x}, x) == "ReferenceError"
    with pytest.raises(ValueError, match="did you mean 'softmax'"):
        client.validate_op("sofmax", {"x": x}, x)


def test_an_entry_with_an_error_names_its_line(tmp_path):
    write(tmp_path, ENTRY.replace("max = 9", "most = 9"))
    line = ENTRY.splitlines().index("rows = { max = 9 }") + 1
    with pytest.raises(ValueError, match=rf"'softmax' is not used.*\n.*gpuemu.toml:{line}: .*most"):
        Client(tmp_path).validate_op("softmax", {}, np.ones(1))


def test_tolerances_and_keywords(client):
    x = np.ones((2, 3), np.float32)
    assert client.validate_op("masked", {"x": x}, x + 0.4).passed
    assert not client.validate_op("masked", {"x": x}, x + 0.4, atol=0.1).passed
    assert client.validate_op("masked", {"x": x}, x * 0, causal=True).passed


def test_fuzzing_finds_a_bug_that_depends_on_the_size(client):
    right = client.fuzz_op_client_side("softmax", lambda i: _softmax(i["x"]), iterations=30, seed=1)
    assert (right.passed, right.failed, right.total) == (30, 0, 30)
    wrong = client.fuzz_op_client_side("softmax", _tail, iterations=30, seed=1)
    assert 0 < wrong.failed < 30
    for failure in wrong.failures:
        assert "expected" in failure.failures[0]["message"]
    first = wrong.failures[0].seed
    assert not client.reproduce(first, run_op=_tail).passed
    assert client.reproduce(first, run_op=lambda i: _softmax(i["x"])).passed
    assert not client.reproduce(first).passed  # the function that failed, imported from this file
    assert client.fuzz_op("softmax", iterations=3, seed=1).passed == 3  # the op of gpuemu.toml
    smaller = client.minimize(first, run_op=_tail)
    assert smaller.minimized_shape == (1, 17)
    assert not smaller.result.passed


@pytest.mark.parametrize("distribution", ["uniform", "adversarial", "nan_injected"])
def test_value_distributions(client, distribution):
    found = client.fuzz_op_client_side(
        "softmax",
        lambda i: _softmax(i["x"]),
        iterations=15,
        seed=3,
        value_distribution=distribution,
        dtypes=["float32"],
    )
    assert not found.failures


def test_own_op_and_layouts(client):
    found = client.fuzz_op("softmax", seed=2, iterations=20, layouts=["contiguous", "strided", "transposed"])
    assert found.passed == 20
    layouts = set()

    def by_layout(inputs):
        layouts.add(inputs["x"].flags.c_contiguous)
        return _softmax(inputs["x"])

    client.fuzz_op_client_side("softmax", by_layout, seed=2, iterations=20, layouts=["strided", "transposed"])
    assert layouts == {True, False}


def test_built_in_schemas_never_guess(client):
    found = client.fuzz_op_client_side("matmul", lambda i: i["a"] @ i["b"], iterations=10, seed=1, dtypes=["float32"])
    assert found.passed == 10
    with pytest.raises(NoSchemaError, match="op_schema"):
        client.fuzz_op_client_side("pair", lambda i: i["a"], iterations=1)
    schema = {
        "dims": [{"name": "n", "candidates": [3, 5]}],
        "inputs": [{"name": "a", "dims": ["n", "n"]}, {"name": "b", "dims": ["n"]}],
    }
    for case in client.get_test_batch("matmul", count=4, seed=1, op_schema=schema):
        assert case["inputs"]["a"].shape[1] == case["inputs"]["b"].shape[0]
        assert client.submit_output("matmul", case["inputs"], case["inputs"]["a"] @ case["inputs"]["b"], case["seed"])


def test_an_exception_of_the_operation_is_a_failure(client):
    found = client.fuzz_op_client_side("softmax", lambda i: 1 / 0, iterations=5, fail_fast=True)
    assert (found.total, found.failures[0].failures[0]["kind"]) == (1, "ExecutionError")


def test_what_does_not_run_is_not_passed(client):
    x = np.ones((2, 3), np.float32)
    stored = client.validate_op("masked", {"x": x}, x + 9)
    assert client.reproduce(stored.seed).failures[0]["kind"] == "NotExecuted"
    with pytest.raises(ValueError, match="does not say what to call"):
        client.fuzz_op("masked", iterations=1)
    with pytest.raises(ValueError, match="no stored failure"):
        client.reproduce(1)


def test_the_context_manager(client):
    x = np.ones((2, 3), np.float32)
    with validate_op(client, "softmax", {"x": x}) as context:
        context["output"] = _softmax(x)
        x *= 0  # the reference gets the inputs as they were
    assert context["result"].passed
    with (
        pytest.raises(ValidationError, match="'softmax' failed"),
        gpuemu.validate_op(client, "softmax", {"x": x}) as context,
    ):
        context["output"] = x + 2
    with pytest.raises(ValueError, match="nothing was validated"), validate_op(client, "softmax", {"x": x}):
        pass


def test_arguments_of_the_original():
    with pytest.warns(DeprecationWarning, match="no daemon"):
        assert Client(socket_path="/run/gpuemu.sock").ping()
    assert gpuemu.Client is Client


def test_a_check_of_the_op_ignores_recorded_cases(client, tmp_path):
    from gpuemu_lsp.cli.gpuemu import main as gpuemu_command

    x = np.ones((2, 3), np.float32)
    wrong = client.validate_op("softmax", {"x": x}, x)
    assert gpuemu_command(["test", "softmax"]) == 0
    assert gpuemu_command(["reproduce", str(wrong.seed)]) == 0  # the op of gpuemu.toml is right
    assert gpuemu_command(["minimize", str(wrong.seed)]) == 2


_MODULE = """
import os
import numpy as np

def tail(inputs):
    x = inputs["x"]
    e = np.exp(x - x.max(-1, keepdims=True))
    if os.path.exists("fixed"):
        return e / e.sum(-1, keepdims=True)
    e[:, 16:] *= 1.01
    return e / e.sum(-1, keepdims=True)

def by_layout(inputs):
    x = inputs["x"]
    result = np.exp(x - x.max(-1, keepdims=True))
    result /= result.sum(-1, keepdims=True)
    return result if x.flags.c_contiguous or x.size == 1 else result * 1.01
"""


def test_the_command_runs_the_function_that_failed(client, tmp_path, monkeypatch, capsys):
    from gpuemu_lsp.cli.gpuemu import main as gpuemu_command

    (tmp_path / "own_ops.py").write_text(_MODULE)
    monkeypatch.syspath_prepend(tmp_path)
    import own_ops

    options = {"iterations": 30, "seed": 1, "dtypes": ["float32"]}
    first = client.fuzz_op_client_side("softmax", own_ops.tail, **options, fail_fast=True).failures[0].seed
    capsys.readouterr()
    assert gpuemu_command(["reproduce", str(first)]) == 1
    assert "still fails" in capsys.readouterr().out.lower()
    (tmp_path / "fixed").touch()
    assert gpuemu_command(["reproduce", str(first)]) == 0
    found = client.fuzz_op_client_side("softmax", own_ops.by_layout, **options, layouts=["strided"])
    assert found.failed > 1
    assert gpuemu_command(["reproduce", str(found.failures[0].seed)]) == 1  # the layout is part of the case
    assert not client.reproduce(found.failures[0].seed).passed


def test_the_command_says_what_is_missing(client, capsys):
    from gpuemu_lsp.cli.gpuemu import main as gpuemu_command

    x = np.ones((2, 3), np.float32)
    wrong = client.validate_op("masked", {"x": x}, x + 9)
    assert gpuemu_command(["reproduce", str(wrong.seed)]) == 2
    text = " ".join(capsys.readouterr().out.split())
    assert 'Add op = "module:function" to its entry' in text
    assert f"Client().reproduce({wrong.seed}, run_op=...)" in text


def test_options_of_a_stored_case_apply_again(client):
    x = np.ones((2, 3), np.float32)
    found = client.fuzz_op_client_side("masked", lambda i: i["x"] + np.float32(0.4), iterations=1, seed=1, atol=0.1)
    seed = found.failures[0].seed
    assert not client.reproduce(seed, run_op=lambda i: i["x"] + np.float32(0.4)).passed  # 0.5 in gpuemu.toml
    wrong = client.validate_op("masked", {"x": x}, x, causal=True)
    assert not client.reproduce(wrong.seed, run_op=lambda i: i["x"]).passed
    assert client.reproduce(wrong.seed, run_op=lambda i: i["x"] * 0).passed


_HOSTILE = """
import os, time
import numpy as np

def {name}(inputs, **kwargs):
    {body}
"""


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ("time.sleep(600)", "the reference did not return within 2 s"),
        ("os._exit(3)", "the reference ended its worker process"),
        ("return np.ones(1 << 36)", "Unable to allocate"),
        ("return np.ones(2) + (lambda: os.kill(os.getpid(), 11))()", "the reference ended its worker process"),
    ],
)
def test_a_reference_cannot_end_the_program(tmp_path, body, message):
    (tmp_path / "gpuemu.toml").write_text('[project]\nname = "p"\n[[ops]]\nname = "o"\nreference = "ref.py"\n')
    (tmp_path / "ref.py").write_text(_HOSTILE.format(name="reference", body=body))
    client = Client(tmp_path, timeout_ms=2000)
    result = client.validate_op("o", {"x": np.ones(2)}, np.ones(2))
    assert [one["kind"] for one in result.failures] == ["ReferenceError"]
    assert message in result.failures[0]["message"]


@pytest.mark.parametrize("body", ["time.sleep(600)", "os._exit(0)"])
def test_an_op_of_the_project_cannot_end_the_program(tmp_path, body):
    toml = '[project]\nname = "p"\n[[ops]]\nname = "o"\nreference = "ref.py"\nop = "library:run"\n'
    (tmp_path / "gpuemu.toml").write_text(toml)
    (tmp_path / "ref.py").write_text(_HOSTILE.format(name="reference", body="return inputs['input']"))
    (tmp_path / "library.py").write_text(_HOSTILE.format(name="run", body=body))
    found = Client(tmp_path, timeout_ms=2000).fuzz_op("o", iterations=1, seed=1)
    assert found.failures[0].failures[0]["kind"] == "ExecutionError"
    assert "the op" in found.failures[0].failures[0]["message"]
