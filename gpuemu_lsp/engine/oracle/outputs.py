"""What a reference gave back, as the outputs that are declared."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gpuemu_lsp.engine.fuzz.dtypes import is_float
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.pack import shape_of
from gpuemu_lsp.engine.oracle.inputs import output_tensors
from gpuemu_lsp.engine.oracle.trace import plain
from gpuemu_lsp.engine.plan.model import Plan, TensorArg


class ReferenceFailure(Exception):  # noqa: N818 - "ReferenceError" is a builtin and means something else
    """The reference cannot be used. ``rule`` says how; ``line`` is 1-based in ``path`` where the user can mend it."""

    def __init__(self, rule: str, message: str, path: str, line: int | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.path = path
        self.line = line


@dataclass(frozen=True, slots=True)
class ReferenceOutput:
    """What a reference says is right.

    ``arrays`` by parameter name: fp64 for float outputs, int64, uint64 or bool as the reference made them for the
    others. ``low_precision`` names outputs that came back narrower than fp64. ``traced`` says that every output
    carries the rounding of a traced run (see :mod:`gpuemu_lsp.engine.oracle.trace`).
    """

    arrays: Mapping[str, Array]
    seconds: float = 0.0
    low_precision: tuple[str, ...] = ()
    traced: bool = field(default=False, compare=False)
    overflowed: bool = False
    """Something exceeded fp64 on the way, so an infinity or NaN may be the reference's own failing."""


def read_outputs(
    path: str, plan: Plan, case: Case, given: Mapping[str, Array], result: Any, seconds: float
) -> ReferenceOutput:
    """Read what a reference at ``path`` returned as the declared outputs.

    Raises
    ------
    ReferenceFailure
        If it does not fit them.
    """
    wanted = output_tensors(plan)
    parts = _split(path, wanted, given, result)
    arrays: dict[str, Array] = {}
    low: list[str] = []
    is_traced = True
    for arg, part in zip(wanted, parts, strict=True):
        is_traced = is_traced and isinstance(part, np.ndarray) and type(part) is not np.ndarray
        array = _as_array(path, arg, part)
        if array.dtype.kind == "f" and array.dtype.itemsize < 8:
            low.append(arg.param)
        arrays[arg.param] = _shaped(path, arg, _settled(array, arg), shape_of(case, arg.param))
    return ReferenceOutput(arrays, seconds, tuple(low), is_traced)


def _split(path: str, wanted: tuple[TensorArg, ...], given: Mapping[str, Array], result: Any) -> tuple[Any, ...]:
    """Match what was returned with the outputs: by name, by order, or by what was changed in place."""
    names = ", ".join(arg.param for arg in wanted)
    if result is None and wanted and all(arg.direction == "inout" for arg in wanted):
        return tuple(given[arg.param] for arg in wanted)
    if isinstance(result, Mapping):
        missing = [arg.param for arg in wanted if arg.key not in result and arg.param not in result]
        if missing:
            have = ", ".join(map(str, result)) or "nothing"
            raise _unusable(path, f"it returned a dict with {have}; missing: {', '.join(missing)}")
        return tuple(result[arg.key] if arg.key in result else result[arg.param] for arg in wanted)
    if len(wanted) == 1:
        alone = isinstance(result, tuple) and len(result) == 1
        return (result[0],) if alone else (result,)
    if isinstance(result, tuple | list):
        if len(result) != len(wanted):
            raise _unusable(path, f"it returned {len(result)} arrays for {len(wanted)} outputs ({names})")
        return tuple(result)
    raise _unusable(path, f"it returned one {type(result).__name__} for {len(wanted)} outputs ({names})")


def _as_array(path: str, arg: TensorArg, part: Any) -> Array:
    if part is None:
        raise _unusable(path, "it returned None; return the expected output as an array")
    try:
        array: Array = plain(np.asarray(part))
    except Exception as error:
        raise _unusable(path, f"{arg.param}: a {type(part).__name__} does not become an array: {error}") from error
    if array.dtype.kind == "V" and array.dtype.itemsize <= 2:
        narrow: Array = array.astype(np.float32)
        return narrow
    if array.dtype.kind not in "fiub":
        raise _unusable(path, f"{arg.param}: it returned dtype {array.dtype}; numbers are needed")
    return array


def _settled(array: Array, arg: TensorArg) -> Array:
    if is_float(arg.dtype) or array.dtype.kind == "f":
        kind: type[np.generic] = np.float64
    else:
        kind = np.uint64 if array.dtype == np.uint64 else np.int64
    return array.astype(kind)


def _shaped(path: str, arg: TensorArg, array: Array, shape: tuple[int, ...]) -> Array:
    """Accept the declared shape; also its elements in one row, which is what they are to C."""
    if array.shape == shape:
        return array
    if array.size == int(np.prod(shape)) and (array.ndim <= 1 or len(shape) <= 1 or array.size == 1):
        return array.reshape(shape)
    message = f"{arg.param}: it returned shape {_shape(array.shape)}, but gpuemu.toml declares {_shape(shape)}"
    raise _unusable(path, message)


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _unusable(path: str, message: str) -> ReferenceFailure:
    return ReferenceFailure("reference/wrong-shape", f"the reference cannot be used: {message}", path)
