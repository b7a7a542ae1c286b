"""Entries of gpuemu.toml that a program validates as the original's guides do: with little said about their inputs."""

from __future__ import annotations

import numpy as np
import pytest

from gpuemu import Client
from gpuemu.ops.cases import NoSchemaError
from gpuemu.results import ReproduceResult
from gpuemu_lsp.cli.gpuemu import main as gpuemu

_KERNEL = """
[[kernels]]
name = "square"
source = "kernels/square.cu"
reference = "ref.py"
"""
_OP = """
[[ops]]
name = "square"
module = "mylib"
reference = "ref.py"
"""
_CODE = "__global__ void square(const float* in, float* out, int n) {\n  out[threadIdx.x] = in[threadIdx.x] * in[threadIdx.x];\n}\n"
_REFERENCE = "def reference(inputs: dict, **kwargs):\n    return inputs['values'] ** 2\n"


def client(folder, config, reference=_REFERENCE):
    (folder / "kernels").mkdir()
    (folder / "kernels" / "square.cu").write_text(_CODE)
    (folder / "ref.py").write_text(reference)
    (folder / "gpuemu.toml").write_text(config)
    return Client(folder)


def wrong(inputs):
    return inputs["values"] ** 2 + 1


@pytest.mark.parametrize("config", [_KERNEL, _OP])
def test_inputs_are_those_that_the_reference_reads(tmp_path, config):
    found = client(tmp_path, config)
    case = found.get_test_case("square", seed=3, dtypes=["float32"])
    assert list(case["inputs"]) == ["values"]
    right = found.fuzz_op_client_side("square", lambda inputs: inputs["values"] ** 2, iterations=5, seed=1)
    assert (right.total, right.failed) == (5, 0)
    assert found.fuzz_op_client_side("square", wrong, iterations=5, seed=1).failed == 5
    assert not found.validate_op("square", {"values": np.ones(3, np.float32)}, np.zeros(3, np.float32)).passed


def test_names_in_gpuemu_toml_come_first(tmp_path):
    found = client(tmp_path, _OP.replace('module = "mylib"', 'input_names = ["x"]'))
    assert list(found.get_test_case("square", seed=3)["inputs"]) == ["x"]


def test_shapes_of_several_inputs_must_be_stated(tmp_path):
    found = client(tmp_path, _OP, "def reference(given):\n    return given['a'] + given['b']\n")
    with pytest.raises(NoSchemaError, match="the shapes of a, b are not stated"):
        found.get_test_case("square")


@pytest.mark.filterwarnings("error")
def test_sizes_of_the_original(tmp_path, monkeypatch):
    (tmp_path / "mylib.py").write_text("SHAPES = []\n\n\ndef square(values):\n    return values**2\n")
    found = client(tmp_path, _OP + 'op = "mylib:square"\n')
    sizes = {"batch_sizes": [3], "seq_lengths": [5, 7], "hidden_dims": [9]}
    assert found.fuzz_op("square", seed=1, iterations=6, **sizes).passed == 6
    stated = _OP + 'op = "mylib:square"\n[ops.dims]\nn = { max = 9 }\n[ops.args]\nvalues = { in = ["n"] }\n'
    (tmp_path / "gpuemu.toml").write_text(stated)
    with pytest.raises(DeprecationWarning, match=r"batch_sizes is ignored: state sizes in \[ops.dims\]"):
        found.fuzz_op("square", seed=1, iterations=1, **sizes)


def test_operations_of_a_python_function_round_to_its_dtype(tmp_path):
    (tmp_path / "mylib.py").write_text("def square(values):\n    return values * values + 2 * values + 1\n")
    reference = "def reference(inputs):\n    return (inputs['values'] + 1) ** 2\n"
    found = client(tmp_path, _OP + 'op = "mylib:square"\n', reference)
    assert found.fuzz_op("square", seed=42, iterations=40, dtypes=["float16"]).passed == 40


def test_a_reproduced_case_has_its_inputs(tmp_path):
    found = client(tmp_path, _OP)
    seed = found.fuzz_op_client_side("square", wrong, iterations=1, seed=1, dtypes=["float32"]).failures[0].seed
    again = found.reproduce(seed, lambda inputs: inputs["values"] ** 2)
    assert isinstance(again, ReproduceResult)
    assert again.passed and again.result.passed
    assert again.result.op_name == "square"
    assert again.inputs["values"].dtype == np.float32
    assert not found.reproduce(seed, wrong).result.passed


def test_results_of_a_program_do_not_count_for_a_kernel(tmp_path, monkeypatch, capsys):
    found = client(tmp_path, _KERNEL)
    found.fuzz_op_client_side("square", lambda inputs: inputs["values"] ** 2, iterations=2, seed=1)
    assert found.fuzz_op_client_side("square", wrong, iterations=2, seed=1).failed == 2
    monkeypatch.chdir(tmp_path)
    gpuemu(["test"])
    assert "by a client" not in capsys.readouterr().out


@pytest.mark.parametrize("framework", ["pytorch", "jax", "tf"])
def test_init_with_a_framework(tmp_path, monkeypatch, framework):
    monkeypatch.chdir(tmp_path)
    assert gpuemu(["init", "--framework", framework]) == 0
    found = Client()
    x = np.linspace(-3, 3, 7, dtype=np.float32)[None]
    gelu = 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))
    assert found.validate_op("gelu", {"x": x}, gelu.astype(np.float32)).passed
    assert gpuemu(["init", "--framework", framework]) == 2
