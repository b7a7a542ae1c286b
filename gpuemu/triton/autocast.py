"""Autocast of tensors on the emulated device.

PyTorch casts the arguments of some functions inside ``torch.autocast("cuda")``, by tables in its manual ("Automatic
Mixed Precision package", "CUDA Op-Specific Behavior"). Its own casts apply only to memory of a GPU.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

# fmt: off
_LOWER = frozenset(
    (
        "__matmul__", "__rmatmul__", "addbmm", "addmm", "addmv", "addr", "baddbmm", "bmm", "chain_matmul",
        "multi_dot", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d", "conv_transpose3d",
        "gru_cell", "linear", "lstm_cell", "matmul", "mm", "mv", "prelu", "rnn_tanh_cell", "rnn_relu_cell",
        "scaled_dot_product_attention",
    )
)
_FLOAT = frozenset(
    (
        "__pow__", "__rdiv__", "__rpow__", "__rtruediv__", "acos", "asin", "binary_cross_entropy_with_logits", "cosh",
        "cosine_embedding_loss", "cdist", "cosine_similarity", "cross_entropy", "cumprod", "cumsum", "dist", "erfinv",
        "exp", "expm1", "group_norm", "hinge_embedding_loss", "kl_div", "l1_loss", "layer_norm", "log", "log10",
        "log_softmax", "log1p", "log2", "margin_ranking_loss", "mse_loss", "multilabel_margin_loss",
        "multi_margin_loss", "nll_loss", "norm", "normalize", "pdist", "poisson_nll_loss", "pow", "prod",
        "reciprocal", "rsqrt", "sinh", "smooth_l1_loss", "soft_margin_loss", "softmax", "softmin", "softplus", "sum",
        "renorm", "tan", "triplet_margin_loss", "huber_loss",
    )
)
_WIDEST = frozenset(
    (
        "addcdiv", "addcmul", "atan2", "bilinear", "cat", "cross", "dot", "grid_sample", "index_put", "scatter_add",
        "stack", "tensordot",
    )
)
# fmt: on


def with_autocast(name: str, args: Sequence[Any], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the arguments of the function ``name`` as autocast casts them."""
    if name in _LOWER:
        target = torch.get_autocast_dtype("cuda")
    elif name in _FLOAT:
        target = torch.float32
    elif name in _WIDEST:
        kinds = {value.dtype for value in tree_leaves((args, kwargs)) if _castable(value)}
        if len(kinds) < 2:
            return tuple(args), kwargs
        target = torch.float32
    else:
        return tuple(args), kwargs

    def cast(value: Any) -> Any:
        return value.to(target) if _castable(value) and value.dtype != target else value

    return tuple(tree_map(cast, tuple(args))), tree_map(cast, kwargs)


def _castable(value: Any) -> bool:
    return (
        isinstance(value, torch.Tensor)
        and value.is_cuda
        and value.is_floating_point()
        and value.dtype is not torch.float64
    )
