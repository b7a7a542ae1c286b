"""Common operators, on the samples that PyTorch tests them with, have the results of the CPU."""

from __future__ import annotations

import itertools

import pytest

torch = pytest.importorskip("torch")
invocations = pytest.importorskip("torch.testing._internal.common_methods_invocations")

SAMPLES = 2
OPERATORS = [
    "abs",
    "acos",
    "add",
    "addcdiv",
    "addcmul",
    "addmm",
    "addmv",
    "all",
    "amax",
    "amin",
    "any",
    "arange",
    "argmax",
    "argmin",
    "argsort",
    "atan2",
    "baddbmm",
    "bmm",
    "broadcast_to",
    "bucketize",
    "cat",
    "ceil",
    "chunk",
    "clamp",
    "clone",
    "count_nonzero",
    "cummax",
    "cumprod",
    "cumsum",
    "diag_embed",
    "diff",
    "div",
    "dot",
    "einsum",
    "eq",
    "erf",
    "exp",
    "expand",
    "eye",
    "flip",
    "floor",
    "fmod",
    "full",
    "gather",
    "ge",
    "index_add",
    "index_copy",
    "index_fill",
    "index_put",
    "index_select",
    "isfinite",
    "isnan",
    "kthvalue",
    "lerp",
    "linalg.vector_norm",
    "linspace",
    "log",
    "log1p",
    "logical_not",
    "logsumexp",
    "lt",
    "masked_fill",
    "masked_select",
    "matmul",
    "max",
    "maximum",
    "mean",
    "median",
    "meshgrid",
    "min",
    "mm",
    "movedim",
    "mul",
    "nan_to_num",
    "narrow",
    "neg",
    "nn.functional.avg_pool2d",
    "nn.functional.batch_norm",
    "nn.functional.conv1d",
    "nn.functional.conv2d",
    "nn.functional.conv_transpose2d",
    "nn.functional.cross_entropy",
    "nn.functional.embedding",
    "nn.functional.gelu",
    "nn.functional.grid_sample",
    "nn.functional.group_norm",
    "nn.functional.huber_loss",
    "nn.functional.interpolate",
    "nn.functional.kl_div",
    "nn.functional.layer_norm",
    "nn.functional.leaky_relu",
    "nn.functional.linear",
    "nn.functional.max_pool2d",
    "nn.functional.mse_loss",
    "nn.functional.pad",
    "nn.functional.relu",
    "nn.functional.rms_norm",
    "nn.functional.scaled_dot_product_attention",
    "nn.functional.silu",
    "nn.functional.softplus",
    "nn.functional.unfold",
    "nonzero",
    "outer",
    "permute",
    "pow",
    "prod",
    "reciprocal",
    "repeat",
    "reshape",
    "roll",
    "round",
    "rsqrt",
    "scatter",
    "scatter_add",
    "scatter_reduce",
    "searchsorted",
    "sigmoid",
    "sign",
    "sin",
    "softmax",
    "sort",
    "split",
    "sqrt",
    "stack",
    "std",
    "sub",
    "sum",
    "take_along_dim",
    "tanh",
    "tile",
    "topk",
    "tril",
    "triu",
    "true_divide",
    "unbind",
    "unique",
    "var",
    "where",
]


def on_device(value):
    """Return arguments with their tensors on the device."""
    return torch.utils._pytree.tree_map_only(torch.Tensor, lambda tensor: tensor.cuda(), value)


@pytest.mark.parametrize("name", OPERATORS)
def test_an_operator_has_the_results_of_the_cpu(name):
    operators = [op for op in invocations.op_db if op.name == name and torch.float32 in op.dtypes]
    assert operators, "PyTorch has no samples of this name"
    for op in operators:
        for sample in itertools.islice(op.sample_inputs("cpu", torch.float32), SAMPLES):
            arguments = (sample.input, sample.args, sample.kwargs)
            wanted = op(sample.input, *sample.args, **sample.kwargs)
            first, others, named = on_device(arguments)
            if "device" in named:
                named["device"] = "cuda"
            result = op(first, *others, **named)
            for one, expected in zip(*map(torch.utils._pytree.tree_leaves, (result, wanted)), strict=True):
                if isinstance(expected, torch.Tensor):
                    torch.testing.assert_close(one.cpu(), expected, equal_nan=True)
                else:
                    assert one == expected
