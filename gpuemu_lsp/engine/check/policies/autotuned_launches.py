"""Autotuned kernels that change what they compute from: an autotuner runs each of them many times on one launch.

Such a kernel is found by a second run on the results of the first, with the buffers that the autotuner resets or
restores as they were.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from dataclasses import replace

import numpy as np

from gpuemu_lsp.engine.check.case_runner import CaseRunner
from gpuemu_lsp.engine.check.finding_placer import FindingFactory
from gpuemu_lsp.engine.execution import Buffer, Bytes, Outcome
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.fuzz import pack_arguments
from gpuemu_lsp.engine.fuzz.dtypes import is_float, numpy_dtype
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.model import TensorArg
from gpuemu_lsp.engine.subjects.model import CodeError

_RULE = "memory/autotuned-in-place"
_ROUNDING = 1e-2
_CASES = 3
"""Drawn cases that are run twice: one of them may have no element, or only zeros."""


def autotuned_launches(runner: CaseRunner, findings: FindingFactory, cases: Iterable[Case]) -> Iterator[Finding]:
    """Yield an error if a kernel that an autotuner runs repeatedly has other results when it runs on its own results.

    ``cases`` are drawn ones of a kernel that has no other error, of which the first few are run.
    """
    if runner.subject is None:
        return
    for case in itertools.islice(cases, _CASES):
        try:
            changed = _changed(runner, case)
        except CodeError:
            continue
        if changed:
            names, whose = " and ".join(f"'{name}'" for name in changed), "its" if len(changed) == 1 else "their"
            message = (
                f"'{runner.plan.kernel}' is autotuned and computes {names} from {whose} own contents: the autotuner "
                "runs each configuration many times before the launch, which then begins with what they left. "
                "Name the argument in `reset_to_zero`, or in `restore_value`."
            )
            yield findings.finding(_RULE, message, runner.plan.place)
            return


def _changed(runner: CaseRunner, case: Case) -> list[str]:
    """Return the buffers that differ after a second run on the results of the first, except those that are restored."""
    code = runner.code(case)
    if code is None or code.restored is None:
        return []
    packed = pack_arguments(runner.plan, case)
    if any(isinstance(argument, Buffer) and argument.alias_of is not None for argument in packed):
        return []
    launch = runner.launch_of(case)
    first = runner.repeat(case, launch)
    if not _is_right(first):
        return []
    again = tuple(
        replace(argument, data=first.buffers[argument.name], initialized=True, initialized_bytes=None)
        if isinstance(argument, Buffer) and argument.name not in code.restored and argument.name in first.buffers
        else argument
        for argument in packed
    )
    second = runner.repeat(case, launch, again)
    if not _is_right(second):
        return []
    tensors = [arg for arg in runner.plan.args if isinstance(arg, TensorArg) and arg.param in first.buffers]
    return [
        arg.param
        for arg in tensors
        if arg.param not in code.restored and _differs(first.buffers[arg.param], second.buffers[arg.param], arg.dtype)
    ]


def _differs(before: Bytes, after: Bytes, dtype: str) -> bool:
    """Return whether elements differ by more than rounding, as those that are normalised twice do."""
    one, other = (contents.view(numpy_dtype(dtype)) for contents in (before, after))
    if not is_float(dtype):
        return not np.array_equal(one, other)
    return not np.allclose(one.astype(np.float64), other.astype(np.float64), _ROUNDING, 0.0, equal_nan=True)


def _is_right(outcome: Outcome) -> bool:
    return outcome.status == "completed" and not outcome.events
