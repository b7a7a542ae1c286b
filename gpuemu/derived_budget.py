"""The engine's error budget for functions of a running program: NumPy or PyTorch on the CPU, evaluated in fp64."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.fuzz.dtypes import FORMATS
from gpuemu_lsp.engine.fuzz.model import Case, CaseKey
from gpuemu_lsp.engine.oracle import (
    Mismatch,
    Numerics,
    Reference,
    ReferenceEvaluation,
    ReferenceFailure,
    call,
    judge,
)
from gpuemu_lsp.engine.oracle.budget import error_budgets
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, TensorArg
from gpuemu_lsp.engine.project.expressions import parse

Array: TypeAlias = npt.NDArray[Any]
Function: TypeAlias = Callable[[Mapping[str, Any]], tuple[Any, ...]]

_PRECISIONS = {
    "float64": "f64",
    "float32": "f32",
    "float16": "f16",
    "bfloat16": "bf16",
    "float8_e4m3fn": "e4m3",
    "float8_e5m2": "e5m2",
}
_NARROW = frozenset({"f16", "bf16", "e4m3", "e5m2"})
_STORED_ROUNDINGS = 4.0
"""Roundings of intermediate results to a narrow format, as of the probabilities in attention, in unit roundoffs of the
row's largest result."""
_MOST_ELEMENTS = 1 << 22
"""Elements of inputs and outputs beyond which a dozen evaluations in fp64 take too long."""


@dataclass(frozen=True, slots=True)
class DerivedVerdict:
    """Mismatches of a result, worst first, and the exact results of the reference by name, in fp64.

    ``allowed`` has the budget of each output if there are mismatches: the allowed absolute error, infinite for elements
    that are not compared.
    """

    mismatches: tuple[Mismatch, ...]
    expected: Mapping[str, Array]
    allowed: Mapping[str, Array]
    decided: int


def judge_result(
    function: Function,
    inputs: Mapping[str, Array],
    outputs: Mapping[str, Array],
    *,
    torch: bool = False,
    precisions: frozenset[str] = frozenset(),
    rounded: frozenset[str] = frozenset(),
    separate: bool = False,
) -> DerivedVerdict | None:
    """Compare results with a reference within the error that rounding explains.

    Parameters
    ----------
    function : Callable
        Returns the expected outputs, in order, for a mapping of input arrays (tensors with ``torch``). It is evaluated
        in fp64, and again with rounding errors where the result is not close to that.
    inputs, outputs : Mapping
        Arrays by name. The outputs are those to judge.
    precisions : frozenset
        Formats of the arithmetic besides those of inputs and outputs, such as ``tf32``, or ``bf16`` of autocast.
    rounded : frozenset
        Narrow formats to which every operation of the function rounds its result; only those of inputs and outputs
        count. Others compute in fp32 and round what they store.
    separate : bool
        Whether the function runs in a process of its own, where the rounding of its steps cannot be simulated.

    Returns
    -------
    DerivedVerdict or None
        None if no budget can be derived: the function fails in fp64 or computes in less, the tensors are complex, or
        too large for repeated evaluation.
    """
    if not _supported(inputs, outputs):
        return None
    plan, case = _plan(inputs, outputs), _case(inputs, outputs)
    known = {arg.dtype for arg in plan.args if isinstance(arg, TensorArg)}
    formats = {_PRECISIONS[name] for name in known if name in _PRECISIONS} | precisions
    # Kernels on narrow formats compute in fp32 and round what they store; see `_stored_roundings`.
    narrow = formats & _NARROW
    numerics = Numerics(frozenset(formats - narrow | ({"f32"} if narrow else set()) | rounded & narrow))

    def evaluated(given: Mapping[str, Any], **_: Any) -> tuple[Any, ...]:
        return function({name: given[name].reshape(array.shape) for name, array in inputs.items()})

    reference = Reference("<ground truth>", "", evaluated, (), False, torch, live=True, separate=separate)
    try:
        expected = call(reference, plan, case)
    except ReferenceFailure:
        return None
    if expected.low_precision:
        return None
    buffers = {name: _bytes(array) for name, array in outputs.items()}
    written = {name: np.ones(data.size, np.bool_) for name, data in buffers.items()}
    outcome = Outcome("completed", "python", buffers, written)
    evaluation = ReferenceEvaluation(reference, plan, case, expected, numerics)
    result = judge(plan, case, outcome, evaluation)
    arrays = {name: expected.arrays[name].reshape(array.shape) for name, array in outputs.items()}
    budgets = error_budgets(evaluation, {}) if result.mismatches else {}
    allowed = {
        name: np.where(budget.undecided, np.inf, budget.allowed).reshape(outputs[name].shape)
        + _stored_roundings(arrays[name], outputs[name], narrow)
        for name, budget in budgets.items()
    }
    return DerivedVerdict(result.mismatches, arrays, allowed, result.decided)


def _stored_roundings(exact: Array, output: Array, narrow: set[str] | frozenset[str]) -> Any:
    """Return the error of intermediate results that are stored in a narrow format."""
    if not narrow or output.dtype.name not in FORMATS or not exact.ndim:
        return 0.0
    roundoff = max(FORMATS[name].roundoff for name, short in _PRECISIONS.items() if short in narrow)
    magnitude = np.abs(np.nan_to_num(exact.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0))
    return _STORED_ROUNDINGS * roundoff * magnitude.max(axis=-1, keepdims=True)


def _supported(inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> bool:
    arrays = (*inputs.values(), *outputs.values())
    if not outputs or sum(array.size for array in arrays) > _MOST_ELEMENTS:
        return False
    return all(array.size and (array.dtype.name in FORMATS or array.dtype.kind in "iub") for array in arrays)


def _plan(inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Plan:
    args: list[PlanArg] = []
    for direction, arrays in (("in", inputs), ("out", outputs)):
        for name, array in arrays.items():
            shape = tuple(parse(extent) for extent in _shape(array))
            args.append(TensorArg(name, name, direction, array.dtype.name, shape))
    floats = [array.dtype.name for array in (*outputs.values(), *inputs.values()) if array.dtype.name in FORMATS]
    place = Place("", Range.of(0, 0, 0, 0))
    one = (parse(1),)
    return Plan("call", "call", floats[0] if floats else "float32", tuple(args), (), one, one, parse(0), place)


def _case(inputs: Mapping[str, Array], outputs: Mapping[str, Array]) -> Case:
    seed = hashlib.blake2b(digest_size=8)
    for array in inputs.values():
        seed.update(np.ascontiguousarray(array).tobytes())
    extents = [extent for array in inputs.values() for extent in array.shape]
    return Case(
        key=CaseKey(int.from_bytes(seed.digest(), "little"), "recorded"),
        dtype="",
        # The longest sum: an evaluation that cannot be traced shows none.
        dims={"n": max(extents, default=1)},
        tensors={name: np.ascontiguousarray(array).reshape(_shape(array)) for name, array in inputs.items()},
        scalars={},
        outputs={name: _shape(array) for name, array in outputs.items()},
        grid=(1, 1, 1),
        block=(1, 1, 1),
        shared_bytes=0,
        finite=all(_is_finite(array) for array in inputs.values()),
    )


def _is_finite(array: Array) -> bool:
    return array.dtype.name not in FORMATS or bool(np.isfinite(array.astype(np.float64)).all())


def _shape(array: Array) -> tuple[int, ...]:
    return tuple(array.shape) or (1,)


def _bytes(array: Array) -> npt.NDArray[np.uint8]:
    return np.frombuffer(np.ascontiguousarray(array).tobytes(), np.uint8)
