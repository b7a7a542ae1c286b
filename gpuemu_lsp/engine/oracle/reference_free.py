"""What can be judged without a reference: elements nobody wrote, inputs that were changed, broken invariants."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.pack import element_written, pack_arguments, poison, shape_of, unpack
from gpuemu_lsp.engine.oracle.mismatch import Mismatch, describe, largest_at, number, with_dims
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.model import Invariants

Mask: TypeAlias = npt.NDArray[np.bool_]


def unwritten_in(arg: TensorArg, case: Case, outcome: Outcome, actual: Array) -> Mask | None:
    """Return which elements of a pure output nobody wrote, or None for none.

    Where the executor cannot tell, an element that still holds every bit of the poison was not written.
    """
    if arg.direction != "out" or f"alias:{arg.param}" in case.extra:
        return None
    written = element_written(arg, case, outcome.written)
    if written is None:
        raw = np.ascontiguousarray(actual).view(np.uint8).reshape(actual.size, -1)
        unwritten = (raw == poison(arg.dtype)).all(axis=1).reshape(actual.shape)
    else:
        unwritten = ~written
    return unwritten if unwritten.any() else None


def unwritten_mismatch(arg: TensorArg, case: Case, unwritten: Mask) -> Mismatch:
    """Tell them."""
    index = largest_at(unwritten)
    return describe("numeric/unwritten-output", arg, case, unwritten, index, "was never written")


def modified_inputs(plan: Plan, case: Case, outcome: Outcome) -> list[Mismatch]:
    """Inputs must come back as they went in, bit for bit, unless an output was given the same memory."""
    shared = {target for key, target in case.extra.items() if key.startswith("alias:")}
    packed = {argument.name: argument for argument in pack_arguments(plan, case)}
    found = []
    for arg in plan.args:
        if not isinstance(arg, TensorArg) or arg.direction != "in" or arg.param in shared:
            continue
        after = outcome.buffers.get(arg.param)
        before = packed[arg.param].data
        if after is None or not isinstance(before, np.ndarray) or np.array_equal(after, before):
            continue
        now = unpack(arg, case, after)
        if now is None:
            found.append(short(arg, case, int(after.size)))
            continue
        stored = np.ascontiguousarray(case.tensors[arg.param])
        changed = (
            np.ascontiguousarray(now).view(np.uint8).reshape(now.size, -1)
            != stored.view(np.uint8).reshape(now.size, -1)
        ).any(axis=1)
        wrong = changed.reshape(now.shape)
        if not wrong.any():
            message = f"the gaps between the rows of {arg.param} were written to"
            found.append(Mismatch("numeric/input-modified", arg.param, with_dims(message, case), 1, now.size))
            continue
        index = largest_at(wrong)
        text = f"was changed from {number(stored[index])} to {number(now[index])}, but {arg.param} is an input"
        found.append(describe("numeric/input-modified", arg, case, wrong, index, text))
    return found


def broken_invariants(
    plan: Plan, case: Case, arg: TensorArg, actual: Array, invariants: Invariants, judged: Mask
) -> list[Mismatch]:
    """Return what breaks the invariants that gpuemu.toml demands of an output."""
    wide = actual.astype(np.float64)
    checks = (
        (invariants.no_nan, np.isnan(wide), "no_nan"),
        (invariants.no_inf, np.isinf(wide), "no_inf"),
        (invariants.non_negative, wide < 0, "non_negative"),
    )
    found = []
    for wanted, broken, name in checks:
        wrong = broken & judged
        if wanted and wrong.any():
            index = largest_at(wrong)
            text = f"{number(actual[index])} breaks the invariant {name}"
            found.append(describe("numeric/invariant", arg, case, wrong, index, text))
    first = next((a for a in plan.args if isinstance(a, TensorArg) and a.direction != "out"), None)
    if invariants.shape_preserved and first is not None and actual.shape != shape_of(case, first.param):
        shapes = f"{arg.param} has shape {list(actual.shape)}, {first.param} has {list(shape_of(case, first.param))}"
        message = with_dims(f"{shapes}: the invariant shape_preserved is broken", case)
        found.append(Mismatch("numeric/invariant", arg.param, message, 1, 1))
    return found


def short(arg: TensorArg, case: Case, size: int) -> Mismatch:
    """Tell that a buffer came back too small."""
    shape = shape_of(case, arg.param)
    message = with_dims(f"{arg.param} came back with {size} bytes, too few for shape {list(shape)}", case)
    return Mismatch("numeric/shape-mismatch", arg.param, message, 1, 1)
