"""Conversion of the value a reference returned to the outputs that the plan declares."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuemu_lsp.engine.fuzz.dtypes import is_float
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.pack import shape_of
from gpuemu_lsp.engine.oracle.inputs import compared_tensors, output_tensors
from gpuemu_lsp.engine.oracle.trace import plain
from gpuemu_lsp.engine.plan.model import Plan, TensorArg


class ReferenceFailure(Exception):  # noqa: N818 - "ReferenceError" is a builtin and means something else
    """The reference cannot be used. ``rule`` is that of the finding; ``line`` is 1-based in ``path`` or None."""

    def __init__(self, rule: str, message: str, path: str, line: int | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.path = path
        self.line = line


@dataclass(frozen=True, slots=True)
class ReferenceOutput:
    """Expected outputs of one case.

    ``arrays`` has them by parameter name: fp64 for float outputs, int64 or uint64 for the others (fp64 where the
    reference returned floats for an integer output). ``seconds`` is the processor time of the
    call, of its thread and of the script that it runs. ``low_precision`` names
    outputs that the reference returned in less than fp64. ``traced`` is True if every output carries the rounding
    errors of a traced run (:mod:`gpuemu_lsp.engine.oracle.trace`).
    """

    arrays: Mapping[str, Array]
    seconds: float = 0.0
    low_precision: tuple[str, ...] = ()
    traced: bool = field(default=False, compare=False)
    changed_inputs: tuple[str, ...] = ()
    """Inputs of the kernel whose copies the reference changed, by their names in the reference's inputs."""
    overflowed: bool = False
    """True if an intermediate result exceeded fp64, so that an infinity or NaN may be due to the reference alone."""


def read_outputs(
    path: str, plan: Plan, case: Case, given: Mapping[str, Array], result: Any, seconds: float
) -> ReferenceOutput:
    """Convert ``result``, returned by the reference at ``path``, to the declared outputs.

    ``given`` are the arrays that were passed to the reference, ``seconds`` the processor time of the call.

    Raises
    ------
    ReferenceFailure
        If it does not fit the declared outputs.
    """
    expected = compared_tensors(plan)
    parts = _split(path, expected, output_tensors(plan), given, result)
    arrays: dict[str, Array] = {}
    low: list[str] = []
    is_traced = True
    for arg, part in zip(expected, parts, strict=True):
        # Recognised by the type, before conversion makes it a plain array.
        is_traced = is_traced and isinstance(part, np.ndarray) and type(part) is not np.ndarray
        array = _as_array(path, arg, part)
        if array.dtype.kind == "f" and array.dtype.itemsize < 8:
            low.append(arg.param)
        place = _with_shape if arg.ordered else _sorted_values
        arrays[arg.param] = place(path, arg, _widened(array, arg), shape_of(case, arg.param))
    return ReferenceOutput(arrays, seconds, tuple(low), is_traced)


def _split(
    path: str, expected: tuple[TensorArg, ...], outputs: tuple[TensorArg, ...], given: Mapping[str, Array], result: Any
) -> tuple[Any, ...]:
    """Match the returned values with the outputs: by name, by order, or the inputs modified in place.

    ``expected`` are the compared ones of ``outputs``. A tuple may have all outputs or the compared ones.
    """
    names = ", ".join(arg.param for arg in expected)
    # Only `inout` parameters: a reference that returns nothing and has a pure output has forgotten its `return`.
    if result is None and expected and all(arg.direction == "inout" for arg in expected):
        return tuple(given[arg.param] for arg in expected)
    if not expected and outputs:
        raise _unusable(path, "every output has `compare = false`; remove `reference`")
    if not expected:
        raise _unusable(path, "the kernel has no `out` or `inout` argument to compare with; remove `reference`")
    if isinstance(result, Mapping):
        missing = [arg.param for arg in expected if arg.key not in result and arg.param not in result]
        if missing:
            have = ", ".join(map(str, result)) or "nothing"
            raise _unusable(path, f"it returned a dict with {have}; missing: {', '.join(missing)}")
        return tuple(result[arg.key] if arg.key in result else result[arg.param] for arg in expected)
    # An author may return all outputs in order, as for any other kernel, and then exclude one of them.
    if len(outputs) > len(expected) and isinstance(result, tuple) and len(result) == len(outputs):
        return tuple(part for arg, part in zip(outputs, result, strict=True) if arg in expected)
    # A list is not unpacked for a single output: it may be the output itself, as nested lists.
    if len(expected) == 1:
        alone = isinstance(result, tuple) and len(result) == 1
        return (result[0],) if alone else (result,)
    if isinstance(result, tuple | list):
        if len(result) != len(expected):
            raise _unusable(path, f"it returned {len(result)} arrays for {len(expected)} outputs ({names})")
        return tuple(result)
    raise _unusable(path, f"it returned one {type(result).__name__} for {len(expected)} outputs ({names})")


def _as_array(path: str, arg: TensorArg, part: Any) -> Array:
    if part is None:
        raise _unusable(path, "it returned None; return the expected output as an array")
    try:
        array: Array = plain(np.asarray(part))
    # Ragged lists, and objects whose __array__ raises.
    except Exception as error:
        raise _unusable(path, f"{arg.param}: a {type(part).__name__} does not become an array: {error}") from error
    # ml_dtypes registers bfloat16 and fp8 e4m3 with NumPy's kind "V". Their values are exact in fp32.
    if array.dtype.kind == "V" and array.dtype.itemsize <= 2:
        narrow: Array = array.astype(np.float32)
        return narrow
    if array.dtype.kind not in "fiub":
        raise _unusable(path, f"{arg.param}: it returned dtype {array.dtype}; numbers are needed")
    return array


def _widened(array: Array, arg: TensorArg) -> Array:
    # A float result of an integer output keeps its fraction, which the budget needs: rounding it here would decide
    # between two integers that may both be right.
    if is_float(arg.dtype) or array.dtype.kind == "f":
        kind: type[np.generic] = np.float64
    else:
        kind = np.uint64 if array.dtype == np.uint64 else np.int64
    return array.astype(kind)


def _with_shape(path: str, arg: TensorArg, array: Array, shape: tuple[int, ...]) -> Array:
    """Return the array in its declared shape; a flat array of the same size is accepted, as C sees no shapes."""
    if array.shape == shape:
        return array
    if array.size == int(np.prod(shape)) and (array.ndim <= 1 or len(shape) <= 1 or array.size == 1):
        return array.reshape(shape)
    message = f"{arg.param}: it returned shape {_shape(array.shape)}, but gpuemu.toml declares {_shape(shape)}"
    raise _unusable(path, message)


def _sorted_values(path: str, arg: TensorArg, array: Array, shape: tuple[int, ...]) -> Array:
    """Return the values of an output without a fixed order: sorted within rows, or all of them if there are fewer."""
    # Sorted here, so that all later stages compare by position: determinism, perturbed runs, the error budget.
    if arg.compare == "set":
        return np.unique(array)
    # What the kernel left unwritten in a buffer that it also reads is not known.
    if arg.direction == "out" and array.size < int(np.prod(shape)):
        return np.sort(array, axis=None)
    return np.sort(_with_shape(path, arg, array, shape), axis=-1)


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _unusable(path: str, message: str) -> ReferenceFailure:
    return ReferenceFailure("reference/wrong-shape", f"the reference cannot be used: {message}", path)
