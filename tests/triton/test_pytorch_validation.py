"""Validation of PyTorch operations against NumPy references of gpuemu.toml, with gradients."""

from __future__ import annotations

import pytest
import torch
from support.op_project import gelu_client

from gpuemu.frameworks.pytorch import ValidationError, check_backward, fuzz_pytorch_op, validate_pytorch


@pytest.fixture
def client(tmp_path):
    return gelu_client(tmp_path)


def gelu(x):
    return torch.nn.functional.gelu(x, approximate="tanh")


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.bfloat16])
def test_forward(client, dtype):
    x = torch.randn(6, 7, dtype=dtype, requires_grad=True)
    with validate_pytorch(client, "gelu", {"x": x}) as context:
        context["output"] = gelu(x)
    with pytest.raises(ValidationError), validate_pytorch(client, "gelu", {"x": x}) as context:
        context["output"] = gelu(x) * 1.1
    transposed = x.detach().t()
    with validate_pytorch(client, "gelu", {"x": transposed}) as context:
        context["output"] = gelu(transposed)
    with pytest.raises(ValueError, match="nothing was validated"), validate_pytorch(client, "gelu", {"x": x}):
        pass


def test_tolerances_do_not_reach_the_reference(client):
    x = torch.randn(6, 7)
    with validate_pytorch(client, "gelu", {"x": x}, atol=0.5, rtol=0.5) as context:
        context["output"] = gelu(x) + 0.1


def test_backward(client):
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return gelu(x)

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * torch.sigmoid(1.702 * x)

    x = torch.randn(4, 5)
    with validate_pytorch(client, "gelu", {"x": x}, check_backward=True) as context:
        context["output"] = gelu(x)
    assert context["gradients"]["x"].passed
    assert not x.requires_grad
    with (
        pytest.raises(ValidationError, match="gelu_grad_x"),
        validate_pytorch(client, "gelu", {"x": x}, check_backward=True) as context,
    ):
        context["output"] = Wrong.apply(x)
    with (
        pytest.raises(ValueError, match="not validated"),
        validate_pytorch(client, "gelu", {"x": x}, check_backward=True) as context,
    ):
        context["output"] = gelu(x).detach()
    options = {"iterations": 3, "seed": 1, "check_backward": True, "dtypes": ["float32"]}
    assert fuzz_pytorch_op(client, "gelu", lambda i: Wrong.apply(i["x"]), **options).failed == 3
    assert fuzz_pytorch_op(client, "gelu", lambda i: gelu(i["x"]), **options).failed == 0
    options["dtypes"] = ["float16", "bfloat16"]
    assert fuzz_pytorch_op(client, "gelu", lambda i: Wrong.apply(i["x"]) * 1.0, **options).failed > 0
    assert fuzz_pytorch_op(client, "gelu", lambda i: gelu(i["x"]), **options).failed == 0


def test_compiled_functions(client):
    """`torch.compile` keeps results and gradients, and an error in them."""
    compiled = torch.compile(gelu, backend="aot_eager")
    assert check_backward(compiled, [torch.randn(6, 5)], gelu).passed
    wrong = torch.compile(lambda x: gelu(x) * 1.01, backend="aot_eager")
    assert check_backward(wrong, [torch.randn(6, 5)], gelu).failures
    with validate_pytorch(client, "gelu", {"x": (x := torch.randn(6, 7))}, check_backward=True) as context:
        context["output"] = compiled(x)
    assert context["gradients"]["x"].passed


def test_fp8(client):
    x = torch.randn(6, 7).to(torch.float8_e4m3fn)
    with validate_pytorch(client, "gelu", {"x": x}) as context:
        context["output"] = gelu(x.float()).to(torch.float8_e4m3fn)
    with pytest.raises(ValidationError), validate_pytorch(client, "gelu", {"x": x}) as context:
        context["output"] = (gelu(x.float()) * 2).to(torch.float8_e4m3fn)
