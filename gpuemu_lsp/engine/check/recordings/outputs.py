"""Outputs of recorded launches as a baseline: the same inputs gave other values since the file was edited."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.check.finding_placer import FindingPlacer
from gpuemu_lsp.engine.execution import Outcome, Watch
from gpuemu_lsp.engine.findings import Finding, Json, Related
from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, is_float, numpy_dtype
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.recorded import after_launch, known_before
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.recordings.cases import strategy_parts

_ROUNDINGS = 16
"""Differences of this many units of rounding of the largest value are those of another order or contraction, by which
compilers differ too: nvcc compiled what was recorded."""


def changed_outputs(plan: Plan, case: Case, case_id: str, outcome: Outcome, placer: FindingPlacer) -> Iterator[Finding]:
    """Yield a finding for each buffer that a recorded launch now leaves with other values than in the run.

    Nothing is yielded while the file has the text of the run.
    """
    recorded = plan.recorded
    parts = strategy_parts(case.key.strategy)
    launch = None if recorded is None or parts is None else recorded.case(parts[0])
    if recorded is None or launch is None or launch.unchanged or outcome.status != "completed":
        return
    for arg in plan.args:
        if (
            not isinstance(arg, TensorArg)
            or arg.direction == "in"
            or arg.shares is not None
            or arg.param in recorded.fixed
        ):
            continue
        before, now = after_launch(recorded, case, arg.param), outcome.buffers.get(arg.param)
        if before is None or now is None:
            continue
        dtype = numpy_dtype(arg.dtype)
        size = min(before.size, now.size) // dtype.itemsize * dtype.itemsize
        then, value = before[:size].view(dtype), np.ascontiguousarray(now[:size]).view(dtype)
        known = known_before(recorded, case, arg.param)[:size] | _written(outcome, arg.param, size)
        # What neither the run before nor this launch has written has no value.
        different = _differs(then, value, arg.dtype) & known.reshape(-1, dtype.itemsize).all(axis=1)
        if different.any():
            yield _finding(plan, case, case_id, arg, (then, value, different), placer)


def _written(outcome: Outcome, param: str, size: int) -> npt.NDArray[np.bool_]:
    """Return which of the first bytes of a buffer the launch stored."""
    mask = (outcome.written or {}).get(param)
    return np.zeros(size, np.bool_) if mask is None else np.asarray(mask[:size])


def _differs(then: Array, now: Array, dtype: str) -> npt.NDArray[np.bool_]:
    """Return which elements have another value, beyond rounding."""
    if not is_float(dtype):
        return np.asarray(then != now)
    one, other = then.astype(np.float64), now.astype(np.float64)
    both = np.isfinite(one) & np.isfinite(other)
    scale = float(np.abs(one[both]).max(initial=0.0))
    allowed = _ROUNDINGS * FORMATS[dtype].roundoff * scale
    with np.errstate(invalid="ignore"):
        same = (one == other) | (np.isnan(one) & np.isnan(other)) | (both & (np.abs(one - other) <= allowed))
    return np.asarray(~same)


def _finding(
    plan: Plan,
    case: Case,
    case_id: str,
    arg: TensorArg,
    values: tuple[Array, Array, npt.NDArray[np.bool_]],
    placer: FindingPlacer,
) -> Finding:
    """Return the finding of one buffer, on the store that wrote its first different element."""
    then, now, different = values
    index = int(np.flatnonzero(different)[0])
    count, size = int(np.count_nonzero(different)), then.dtype.itemsize
    place = plan.place
    writer = placer.runner.run(case, Watch(arg.param, index * size, size)).watched
    if writer is not None:
        place, _ = placer.runner.source_map(case, placer.findings.source_map).place(writer.location)
    others = f", one of {count:,} elements that differ" if count > 1 else ""
    message = (
        f"the recorded launch left {then[index]} in {arg.param}[{index}], and the same inputs give {now[index]} since "
        f"the file was edited{others}"
    )
    data: dict[str, Json] = {
        "output": arg.param,
        "index": [index],
        "recorded": str(then[index]),
        "actual": str(now[index]),
        "count": count,
    }
    found = placer.findings.finding("numeric/changed-output", message, place, case, case_id, data)
    return replace(found, related=(*found.related, Related(plan.place, f"in '{plan.kernel}'")))
