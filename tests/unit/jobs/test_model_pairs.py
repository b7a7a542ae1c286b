"""Registration of a kernel against the PyTorch model in its file."""

from __future__ import annotations

import tomli
from support.model_pairs import BIAS, MATMUL

from gpuemu_lsp.cli.main import main as gpuemu_lsp
from gpuemu_lsp.engine.jobs.registration import registration
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions
from gpuemu_lsp.engine.workers.wire import to_json


def registered(folder, text):
    """Write a module; return the entry and the reference of its only kernel."""
    (folder / "model.py").write_text(text)
    (request,) = collect([str(folder / "model.py")], CheckOptions(), folder).requests
    payload = {"request": to_json(request), "source": "model.py", "reference": "ref.py"}
    (made,) = registration(payload)
    return made["entry"], made["reference"]


def test_sizes_are_those_of_the_models_inputs(tmp_path):
    entry, reference = registered(tmp_path, BIAS)
    (kernel,) = tomli.loads(entry)["kernels"]
    assert kernel["dims"] == {"batch_size": {"min": 1, "max": 16}, "dim": {"min": 1, "max": 128}}
    assert kernel["args"] == {
        "a": {"in": ["batch_size", "dim"], "as": "x"},
        "b": {"in": ["dim"], "as": "bias"},
        "out": {"out": ["batch_size", "dim"]},
        "rows": "batch_size",
        "cols": "dim",
    }
    assert 'load_model(__file__, "model.py", "Model")' in reference
    assert 'return model(inputs["x"], inputs["bias"])' in reference


def test_shapes_and_launch_of_a_matrix_product(tmp_path):
    (kernel,) = tomli.loads(registered(tmp_path, MATMUL)[0])["kernels"]
    assert kernel["args"]["C"]["out"] == ["M", "N"] and kernel["args"]["K"] == "K"
    assert kernel["launch"]["block"] == [16, 16]
    assert kernel["launch"]["grid"] == ["ceil_div(N, 16)", "ceil_div(M, 16)"]


def test_a_model_that_does_more_than_the_kernel_is_not_its_reference(tmp_path):
    for old, new in (
        ("return self.ext.bias_relu_cuda(x.cuda(), bias)", "return self.ext.bias_relu_cuda(x.cuda() * 2, bias)"),
        ("return self.ext.bias_relu_cuda(x.cuda(), bias)", "return self.ext.bias_relu_cuda(x.cuda(), bias).sum()"),
        ("return self.ext.bias_relu_cuda(x.cuda(), bias)", "return self.ext.bias_relu_cuda(x.cuda(), self.bias)"),
        ("class ModelNew(", "class Other("),
    ):
        assert old in BIAS
        entry, reference = registered(tmp_path, BIAS.replace(old, new))
        assert "torch" not in reference and "np.zeros" in reference and 'source = "model.py"' in entry


def test_without_pytorch_the_kernel_is_not_executed(tmp_path, capsys):
    entry, reference = registered(tmp_path, BIAS)
    reference = f"import sys\nsys.modules['torch'] = None\n{reference}"
    (tmp_path / "gpuemu.toml").write_text(entry)
    (tmp_path / "ref.py").write_text(reference)
    assert gpuemu_lsp(["--check", str(tmp_path / "gpuemu.toml")]) == 2
    out = capsys.readouterr().out
    assert "engine/not-executed" in out and "pip install torch" in out


def test_one_of_several_strings_is_named(tmp_path):
    text = "import cupy as cp\n" + "".join(
        f"K{n} = '''extern \"C\" __global__ void k(float* y, int n) {{\n"
        f"  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = {n};\n}}'''\n"
        f"k{n} = cp.RawKernel(K{n}, 'k')\n"
        for n in range(2)
    )
    (tmp_path / "model.py").write_text(text)
    requests = collect([str(tmp_path / "model.py")], CheckOptions(), tmp_path).requests
    payloads = [{"request": to_json(one), "source": "model.py", "reference": "ref.py"} for one in requests]
    sources = [tomli.loads(made["entry"])["kernels"][0]["source"] for one in payloads for made in registration(one)]
    assert sources == ["model.py:K0", "model.py:K1"]
