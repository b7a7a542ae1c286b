"""The calls of the originals' guides, with the arguments and results that their blocks use, on ops of our own.

One test for each Python block of the kernel author's, the integrator's and the model developer's guide; the blocks for
JAX and TensorFlow are in tests/frameworks, those of the verifier's README in test_python_guides.py and
test_verifier.py. test_original_guides.py runs the blocks themselves where their text is at hand.
"""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
import torch

from gpuemu.client import Client
from gpuemu.frameworks.pytorch import validate_pytorch
from gpuemu.tolerances import calibrate_tolerance
from gpuemu.triton import emulated
from gpuemu.validate import fuzz_dtypes, fuzz_layouts, fuzz_shapes, validate_op, with_strides

KERNEL = """\
extern "C" __global__ void silu(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / (1.0f + expf(-x[i]));
}
"""
FILES = {
    "kernels/silu.cu": KERNEL,
    "scripts/ref_silu.py": (
        "import numpy as np\n\n\ndef reference(inputs: dict, **kwargs) -> np.ndarray:\n"
        "    return inputs['x'] / (1.0 + np.exp(-inputs['x']))\n"
    ),
    "scripts/ref_mixing.py": (
        "import numpy as np\n\n\ndef reference(inputs: dict, **kwargs) -> np.ndarray:\n"
        "    q, k, v = inputs['q'], inputs['k'], inputs['v']\n"
        "    scores = np.einsum('bihd,bjhd->bhij', q, k) / np.sqrt(q.shape[-1])\n"
        "    if kwargs.get('causal', 'false').lower() == 'true':\n"
        "        scores = np.where(np.tri(*scores.shape[-2:], dtype=bool), scores, -np.inf)\n"
        "    p = np.exp(scores - scores.max(-1, keepdims=True))\n"
        "    return np.einsum('bhij,bjhd->bihd', p / p.sum(-1, keepdims=True), v)\n"
    ),
    "swish_library.py": "def silu(x):\n    return x / (1 + __import__('numpy').exp(-x))\n",
}
ENTRIES = """\
[[kernels]]
name = "fused_silu"
source = "kernels/silu.cu"
reference = "scripts/ref_silu.py"

[kernels.tolerances]
float32 = 1e-5
float16 = 1e-2
bfloat16 = 1e-1

[kernels.invariants]
no_nan = true
shape_preserved = true

[kernels.artifact_checks]
max_registers = 32
max_spills = 0
required_patterns = ["silu"]
forbidden_patterns = ["bar.sync"]

[[ops]]
name = "attention_mixing"
module = "numpy"
reference = "scripts/ref_mixing.py"
execution_mode = "client_side"

[ops.invariants]
no_nan = true
no_inf = true

[[ops]]
name = "swish"
op = "swish_library:silu"
input_names = ["x"]
reference = "scripts/ref_silu.py"
"""


@pytest.fixture
def client(tmp_path, monkeypatch):
    for name, text in FILES.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
    (tmp_path / "gpuemu.toml").write_text(ENTRIES)
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    return Client()


def silu(x):
    return torch.nn.functional.silu(x)


def mixing(q, k, v):
    found = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in (q, k, v)))
    return found.transpose(1, 2)


def wrong_tail(inputs):
    """Return the values of the op, with an error from the column 32 on."""
    output = silu(torch.from_numpy(inputs["x"]))
    output[..., 32:] += 1
    return output.numpy()


# ---- kernel author ---------------------------------------------------------------------------------------------------


def test_shapes_of_three_dimensions_and_types(client):
    for batch, seq, hidden in fuzz_shapes(batch=[1, 3], seq=[1, 17], hidden=[5, 64]):
        for dtype in fuzz_dtypes(["float32", "float16"]):
            x = torch.randn(batch, seq, hidden, dtype=getattr(torch, dtype))
            with validate_pytorch(client, "fused_silu", {"x": x}) as context:
                context["output"] = silu(x)
            assert context["result"].passed


def test_layouts(client):
    seen = set()
    for shape, strides in fuzz_layouts((2, 6, 10)):
        x = torch.from_numpy(with_strides(np.random.default_rng(1).random(shape, np.float32), strides))
        seen.add(x.stride())
        with validate_pytorch(client, "fused_silu", {"x": x}) as context:
            context["output"] = silu(x)
    assert len(seen) > 2  # memory of its own, not a copy that is contiguous


def test_fuzzing_of_an_op_on_the_device_and_its_smallest_input(client):
    def on_the_device(inputs):
        return silu(torch.from_numpy(inputs["x"]).cuda()).cpu().numpy()

    with emulated():
        results = client.fuzz_op_client_side("fused_silu", run_op=on_the_device, iterations=40, seed=42)
    assert (results.passed, results.total, results.failures) == (40, 40, ())

    wrong = client.fuzz_op_client_side("fused_silu", run_op=wrong_tail, iterations=40, seed=42, dtypes=["float32"])
    assert 0 < wrong.passed < wrong.total
    failure = wrong.failures[0]
    assert failure.failures[0]["message"]
    found = client.minimize(failure.seed, strategy="binary-search-dims", max_iters=100, run_op=wrong_tail)
    assert found.minimized_shape[-1] == 33
    assert set(found.minimized_shape[:-1]) <= {1}
    assert found.minimized_seed
    assert not found.result.passed
    with pytest.raises(ValueError, match="known: binary-search-dims"):
        client.minimize(failure.seed, strategy="binary-search-values")


# ---- integrator ------------------------------------------------------------------------------------------------------


def test_tolerances_of_one_call(client):
    q, k, v = (torch.randn(2, 16, 4, 32, dtype=torch.float16) for _ in range(3))
    for error, tolerances, passed in ((0.0, {}, True), (0.05, {}, False), (0.05, {"atol": 1e-1, "rtol": 1e-1}, True)):
        try:
            with validate_pytorch(client, "attention_mixing", {"q": q, "k": k, "v": v}, **tolerances) as context:
                context["output"] = mixing(q, k, v) + error
        except AssertionError:
            assert not passed
        assert context["result"].passed is passed


def test_a_calibrated_tolerance():
    def reference(q, k, v):
        scores = np.einsum("bihd,bjhd->bhij", q, k) / np.sqrt(q.shape[-1])
        p = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("bhij,bjhd->bihd", p / p.sum(-1, keepdims=True), v)

    found = calibrate_tolerance(
        reference_fn=lambda q, k, v: reference(q, k, v),
        test_fn=lambda q, k, v: mixing(*(torch.from_numpy(x) for x in (q, k, v))).numpy(),
        input_shapes=[(2, 16, 4, 32)] * 3,
        dtype="float32",
        n_samples=10,
        percentile=99.0,
        safety_margin=2.0,
    )
    assert 0 < found.atol < 1e-4
    assert 0 < found.rtol < 1


def test_a_baseline_before_and_after_an_upgrade(client, tmp_path):
    first, last = ENTRIES.index("[[ops]]"), ENTRIES.rindex("[[ops]]")
    (tmp_path / "gpuemu.toml").write_text(ENTRIES[first:last])  # a baseline checks every entry

    def run(inputs, error=0.0):
        q, k, v = (torch.from_numpy(inputs[name]) for name in "qkv")
        return (mixing(q, k, v) + error).numpy()

    results = client.fuzz_op_client_side("attention_mixing", run_op=run, iterations=20, seed=42, dtypes=["float32"])
    assert (results.passed, results.total) == (20, 20)
    client.store_baseline("library-2.3.0")
    assert client.compare_baseline("library-2.3.0").passed
    worse = client.fuzz_op_client_side(
        "attention_mixing", run_op=lambda inputs: run(inputs, 0.5), iterations=20, seed=42, dtypes=["float32"]
    )
    assert worse.failed == 20
    command = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", "diff", "--baseline", "library-2.3.0"]
    done = subprocess.run(
        [*command, "--fail-on-regression"], capture_output=True, text=True, cwd=tmp_path, timeout=120, check=False
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "attention_mixing" in done.stdout


# ---- model developer -------------------------------------------------------------------------------------------------


def test_an_op_of_any_framework(client):
    inputs = {"x": np.random.default_rng(2).standard_normal((32, 128)).astype(np.float32)}
    with validate_op(client, "swish", inputs=inputs) as context:
        context["output"] = silu(torch.from_numpy(inputs["x"])).numpy()
    assert context["result"].passed
    assert f"{context['result'].max_diff:.2e}"
    with pytest.raises(AssertionError), validate_op(client, "swish", inputs=inputs) as context:
        context["output"] = wrong_tail(inputs)
    assert context["result"].max_diff == pytest.approx(1, rel=1e-3)


def test_gradients(client):
    class WrongBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return silu(x)

        @staticmethod
        def backward(ctx, grad):
            return grad * torch.sigmoid(ctx.saved_tensors[0])

    x = torch.randn(4, 16, requires_grad=True)
    with validate_pytorch(client, "swish", {"x": x}, check_backward=True) as context:
        context["output"] = silu(x)
    assert context["gradients"]["x"].passed
    with (
        pytest.raises(AssertionError),
        validate_pytorch(client, "swish", {"x": x}, check_backward=True) as context,
    ):
        context["output"] = WrongBackward.apply(x)


def test_types_and_shapes_together(client):
    for batch, seq in fuzz_shapes(batch=[1, 4], seq=[3, 64]):
        for dtype in fuzz_dtypes(["float32", "float16", "bfloat16"]):
            x = torch.randn(batch, seq, 8, dtype=getattr(torch, dtype))
            with validate_pytorch(client, "swish", {"x": x}) as context:
                context["output"] = silu(x)


def test_fuzzing_by_the_program_and_by_the_project(client):
    by_program = client.fuzz_op_client_side(
        "swish", run_op=lambda inputs: silu(torch.from_numpy(inputs["x"])).numpy(), iterations=20, seed=42
    )
    assert (by_program.passed, by_program.total) == (20, 20)
    by_project = client.fuzz_op(
        "swish",
        seed=42,
        iterations=20,
        fail_fast=False,
        dtypes=["float32", "float16"],
        layouts=["Contiguous", "Strided", "Transposed"],
    )
    assert (by_project.passed, by_project.total, by_project.failed) == (20, 20, 0)


def test_a_stored_failure_is_run_again(client):
    failure = client.fuzz_op_client_side("swish", wrong_tail, iterations=20, seed=42, dtypes=["float32"]).failures[0]
    again = client.reproduce(failure.seed, run_op=wrong_tail)
    assert again.result.op_name == "swish"
    assert not again.result.passed
    assert again.result.max_diff == pytest.approx(1, rel=1e-2)
    assert again.inputs["x"].dtype == np.float32
    assert silu(torch.from_numpy(again.inputs["x"])).shape == again.inputs["x"].shape
    assert client.reproduce(
        failure.seed, run_op=lambda inputs: silu(torch.from_numpy(inputs["x"])).numpy()
    ).result.passed
