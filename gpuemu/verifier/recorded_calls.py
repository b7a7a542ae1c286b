"""Calls as JSON and named arrays: what the project's store keeps of a failure, and what its replay rebuilds.

Nothing is pickled. Arguments other than tensors, numbers, strings and containers of them are kept as their type only,
and a call with such an argument cannot be replayed.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuemu.verifier.autograd_context import StandInContext, is_context
from gpuemu.verifier.values import Array, as_array, is_torch, laid_out
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.subjects.ops.tensors import to_tensor


class NotReplayableError(ValueError):
    """A recorded call cannot be rebuilt. The message says which argument is missing."""


def encoded(arguments: Mapping[str, Any]) -> tuple[dict[str, Json], dict[str, Array]]:
    """Return named arguments as JSON, and the arrays that it refers to by name."""
    arrays: dict[str, Array] = {}
    return {name: _encode(value, name, arrays) for name, value in arguments.items()}, arrays


def decoded(value: Json, arrays: Mapping[str, Array], path: str = "") -> Any:
    """Return the argument that :func:`encoded` wrote.

    Raises
    ------
    NotReplayableError
        If it, or a part of it, was not kept.
    """
    if not isinstance(value, dict):
        return value
    kind = next((name for name in ("tensor", "tuple", "list", "dict", "number", "context") if name in value), "opaque")
    content = value.get(kind)
    if kind == "tensor":
        assert isinstance(content, str)
        if content not in arrays:
            raise NotReplayableError(f"the values of '{content}' are not stored")
        return _tensor(value, arrays[content])
    if kind in ("tuple", "list"):
        assert isinstance(content, list)
        items = [decoded(item, arrays, path) for item in content]
        return tuple(items) if kind == "tuple" else items
    if kind == "dict":
        assert isinstance(content, dict)
        return {key: decoded(item, arrays, path) for key, item in content.items()}
    if kind == "number":
        return float(str(content))
    if kind == "context":
        return StandInContext()
    raise NotReplayableError(f"the argument '{path}' is a {content}, which is not stored")


def _encode(value: Any, path: str, arrays: dict[str, Array]) -> Json:
    if isinstance(value, np.generic):
        value = np.asarray(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {"number": repr(value)}  # JSON has finite numbers only
    if isinstance(value, np.ndarray) or is_torch(value):
        arrays[path] = as_array(value)
        steps = [step * int(value.element_size()) for step in value.stride()] if is_torch(value) else value.strides
        framework = "torch" if is_torch(value) else "numpy"
        return {"tensor": path, "framework": framework, "strides": list(steps)}
    if type(value) in (tuple, list):
        return {type(value).__name__: [_encode(item, f"{path}.{i}", arrays) for i, item in enumerate(value)]}
    if type(value) is dict and all(isinstance(key, str) for key in value):
        return {"dict": {key: _encode(item, f"{path}.{key}", arrays) for key, item in value.items()}}
    if is_context(value):
        return {"context": True}
    return {"opaque": f"{type(value).__module__}.{type(value).__qualname__}"}


def _tensor(value: Mapping[str, Json], array: Array) -> Any:
    strides = value.get("strides")
    assert isinstance(strides, list)
    steps = tuple(int(str(step)) for step in strides)
    array = laid_out(array, steps)
    return to_tensor(array) if value.get("framework") == "torch" else array
