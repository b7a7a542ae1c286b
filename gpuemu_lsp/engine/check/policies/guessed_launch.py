"""What a run on guessed sizes may claim.

Where nobody said how a kernel is called, sizes, values and roles are our assumptions. What they could have caused is
no error of the kernel: it becomes information, or only says that the kernel was not run.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from gpuemu_lsp.engine.execution import LOCAL_MEMORY, Event
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.plan.types import dtype_size
from gpuemu_lsp.engine.rules import make

_GEOMETRIC = frozenset({"memory/out-of-bounds", "memory/misaligned"})
_SIZED = frozenset({"memory/out-of-bounds", "memory/uninitialized-read"})
_ENDED = frozenset({"sync/trap", "sync/hang"})
_OF_SMALL_SIZES = frozenset({"sync/barrier-divergence", "sync/missing-warp-mask", "memory/global-race"})
"""What a block larger than a row may meet, and its author's smaller one not."""
_OF_MORE_THREADS = _OF_SMALL_SIZES | {"memory/shared-race"}
"""What more threads than a kernel is written for may meet."""
_VECTOR = re.compile(r"\.v[248]\b")
_COLLECTIVE = ("wmma", "ldmatrix", "stmatrix")
"""What a warp loads or stores as a whole tile."""


def stopped(finding: Finding) -> Finding:
    """A trap, an assertion or an endless loop on sizes nobody promised: the kernel was not checked, no more."""
    message = f"'{finding.kernel}' did not run to its end on sizes that were only guessed, so it was not checked"
    return make(
        "engine/not-executed",
        f"{message} ({finding.message.rstrip('.')}). Say its dims, args and launch in gpuemu.toml.",
        finding.place,
        kernel=finding.kernel,
        dtype=finding.dtype,
        dims=finding.dims,
        severity=Severity.HINT,
    )


def allowed_for(finding: Finding, event: Event, plan: Plan, case: Case) -> Finding:
    """Return an event's finding as far as it holds whatever the caller meant."""
    if event.rule in _ENDED:
        return stopped(finding)
    tensors = {arg.param: arg for arg in plan.args if isinstance(arg, TensorArg)}
    known = tensors.get(event.buffer or "")
    if event.buffer in plan.uncertain_lengths:
        return stopped(finding)
    own = event.buffer == LOCAL_MEMORY
    if known is None and not own and plan.assumed_block and event.rule in _SIZED:
        hint = f"{finding.message}; the number of threads of a block was assumed"  # arrays are made for one number
        return replace(finding, severity=Severity.INFORMATION, message=hint)
    threads = math.prod(case.block)
    small = plan.assumed_block and any(size < threads for size in case.dims.values())
    if event.rule in (_OF_MORE_THREADS if plan.fixed_block else _OF_SMALL_SIZES if small else ()):
        hint = f"{finding.message}; the number of threads of a block was assumed"
        return replace(finding, severity=Severity.INFORMATION, message=hint)
    if event.rule == "memory/uninitialized-read" and known is not None:
        return replace(finding, severity=Severity.INFORMATION)  # whether it is an output was a guess
    if known is not None and _needs_multiples(event, known):
        # Nobody said which sizes are allowed; whoever loads float4 may well only ever pass multiples of four.
        hint = f"{finding.message}; in gpuemu.toml, dims can say `multiple_of`"
        return replace(finding, severity=Severity.INFORMATION, message=hint)
    if event.rule == "memory/out-of-bounds" and known is None and _is_capacity(event, case):
        return replace(finding, severity=Severity.INFORMATION)
    return finding


def _needs_multiples(event: Event, arg: TensorArg) -> bool:
    """Say whether an access may be right on the sizes its author has in mind: those that its width divides."""
    if event.instruction.startswith(_COLLECTIVE):
        return event.rule in _GEOMETRIC or event.rule.endswith("-race")
    return event.rule == "memory/misaligned" or (event.rule in _GEOMETRIC and _is_vector(event, arg))


def _is_vector(event: Event, arg: TensorArg) -> bool:
    """Say whether one access takes several of the elements the signature speaks of at once.

    Of a vector access the event may tell only the element that is out of bounds.
    """
    if arg.lanes == 1 and _VECTOR.search(event.instruction):
        return True
    return event.size is not None and event.size > dtype_size(arg.dtype) * arg.lanes


def _is_capacity(event: Event, case: Case) -> bool:
    """Say whether an array of fixed size was too small for a size: its author may only ever pass smaller ones."""
    if event.offset is None or event.offset < 0 or not event.size:
        return False
    return event.offset // event.size < max(case.dims.values(), default=0)
