"""Checks that need no reference: unwritten outputs, modified inputs, broken invariants."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.execution import Outcome, buffers_of
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.pack import element_written, pack_arguments, poison, shape_of, unpack
from gpuemu_lsp.engine.fuzz.values import DEFAULT_SPECIAL
from gpuemu_lsp.engine.oracle.mismatch import Mismatch, WrongElements, describe, largest_at, number, with_dims
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.model import Invariants

Mask: TypeAlias = npt.NDArray[np.bool_]


def unwritten_elements(arg: TensorArg, case: Case, outcome: Outcome, actual: Array) -> Mask | None:
    """Return the elements of a pure output that the kernel did not write, None if it wrote all of them."""
    if arg.direction != "out" or f"alias:{arg.param}" in case.extra:
        return None
    written = element_written(arg, case, outcome.written)
    if written is None:
        # A GPU does not record stores. Outputs start as a poison pattern that is unlikely as a result; an element
        # with every bit of it counts as unwritten.
        raw = np.ascontiguousarray(actual).view(np.uint8).reshape(actual.size, -1)
        unwritten = (raw == poison(arg.dtype)).all(axis=1).reshape(actual.shape)
    else:
        unwritten = ~written
    return unwritten if unwritten.any() else None


def unwritten_mismatch(arg: TensorArg, case: Case, unwritten: Mask) -> Mismatch:
    """Build the mismatch of an output with unwritten elements."""
    elements = WrongElements(arg, case, unwritten, largest_at(unwritten))
    return describe("numeric/unwritten-output", elements, "was never written")


def modified_inputs(plan: Plan, case: Case, outcome: Outcome) -> list[Mismatch]:
    """Return a mismatch for each input whose bytes changed, unless an output shares its memory."""
    aliases = {key.removeprefix("alias:"): target for key, target in case.extra.items() if key.startswith("alias:")}
    shared = {*aliases, *aliases.values()}
    packed = {buffer.name: buffer for buffer in buffers_of(pack_arguments(plan, case))}
    found = []
    for arg in plan.args:
        if not isinstance(arg, TensorArg) or arg.direction != "in" or arg.param in shared:
            continue
        after = outcome.buffers.get(arg.param)
        before = packed[arg.param].data
        # Bytes are compared first: element-wise comparison would miss writes to the gaps of a strided layout and
        # would see NaN as changed.
        if after is None or np.array_equal(after, before):
            continue
        now = unpack(arg, case, after)
        if now is None:
            found.append(short_buffer(arg, case, int(after.size)))
            continue
        stored = np.ascontiguousarray(case.tensors[arg.param])
        changed = (
            np.ascontiguousarray(now).view(np.uint8).reshape(now.size, -1)
            != stored.view(np.uint8).reshape(now.size, -1)
        ).any(axis=1)
        wrong = changed.reshape(now.shape)
        if not wrong.any():
            message = f"the padding between rows of {arg.param} was written, but {arg.param} is an input"
            found.append(Mismatch("numeric/input-modified", arg.param, with_dims(message, case.dims), 1, now.size))
            continue
        index = largest_at(wrong)
        text = f"was changed from {number(stored[index])} to {number(now[index])}, but {arg.param} is an input"
        found.append(describe("numeric/input-modified", WrongElements(arg, case, wrong, index), text))
    return found


def broken_invariants(
    plan: Plan, case: Case, arg: TensorArg, actual: Array, invariants: Invariants, judged: Mask
) -> list[Mismatch]:
    """Return a mismatch for each invariant of gpuemu.toml that an output breaks; ``judged`` limits the elements.

    What it says of values is about inputs that are numbers: the NaN and infinities of default cases do not break it.
    """
    wide = actual.astype(np.float64)
    # NaN < 0 is False: a NaN breaks no_nan only.
    checks = (
        (invariants.no_nan, np.isnan(wide), "no_nan"),
        (invariants.no_inf, np.isinf(wide), "no_inf"),
        (invariants.non_negative, wide < 0, "non_negative"),
    )
    found = []
    of_numbers = case.values not in DEFAULT_SPECIAL
    for required, broken, name in checks:
        wrong = broken & judged
        if required and of_numbers and wrong.any():
            index = largest_at(wrong)
            text = f"{number(actual[index])} breaks the invariant {name}"
            found.append(describe("numeric/invariant", WrongElements(arg, case, wrong, index), text))
    first = next((a for a in plan.args if isinstance(a, TensorArg) and a.direction != "out"), None)
    if invariants.shape_preserved and first is not None and actual.shape != shape_of(case, first.param):
        shapes = f"{arg.param} has shape {list(actual.shape)}, {first.param} has {list(shape_of(case, first.param))}"
        message = with_dims(f"{shapes}: the invariant shape_preserved is broken", case.dims)
        found.append(Mismatch("numeric/invariant", arg.param, message, 1, 1))
    return found


def short_buffer(arg: TensorArg, case: Case, size: int) -> Mismatch:
    """Build the mismatch of a buffer that the executor returned with too few bytes for its shape."""
    shape = shape_of(case, arg.param)
    message = with_dims(f"{arg.param} was returned with {size} bytes, too few for shape {list(shape)}", case.dims)
    return Mismatch("numeric/shape-mismatch", arg.param, message, 1, 1)
