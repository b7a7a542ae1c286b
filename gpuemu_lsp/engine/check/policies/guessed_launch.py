"""Claims about kernels whose launch is guessed.

For an unregistered kernel without a launch in the source, sizes, values and the roles of arguments are assumptions. A
finding that a wrong assumption could cause is information, or becomes the statement that the kernel was not checked.
"""

from __future__ import annotations

import math
import re
from dataclasses import replace

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.check.policies.value_dependence import Independent, may_differ, nothing_known, with_assumption
from gpuemu_lsp.engine.element_types import dtype_size
from gpuemu_lsp.engine.execution import LOCAL_MEMORY, Event
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.rules import make

_ADDRESS_RULES = frozenset({"memory/out-of-bounds", "memory/misaligned"})
_ARRAY_RULES = frozenset({"memory/out-of-bounds", "memory/uninitialized-read"})
_INCOMPLETE_RULES = frozenset({"sync/trap", "sync/hang"})
_PARTIAL_BLOCK_RULES = frozenset({"sync/barrier-divergence", "sync/missing-warp-mask", "memory/global-race"})
"""Rules that a block larger than a row can break, where the block size the kernel is written for cannot."""
_LARGER_BLOCK_RULES = _PARTIAL_BLOCK_RULES | {"memory/shared-race"}
"""Rules that more threads than a kernel is written for can break."""
_VECTOR = re.compile(r"\.v[248]\b")
_FAR = 1 << 24
"""Bytes from an array at which an access is not one of its."""
_MAX_INDEPENDENT = 2
"""Sizes, one of them unknown, that are likely not to depend on each other."""
_COLLECTIVE = ("wmma", "ldmatrix", "stmatrix")
"""Instructions by which a warp loads or stores a whole tile."""


def not_checked(finding: Finding) -> Finding:
    """Return a trap or hang on guessed sizes as a hint that the kernel was not checked.

    An assertion may well demand sizes that were not guessed.
    """
    message = f"'{finding.kernel}' was not checked: with guessed sizes it did not run to completion"
    return make(
        "engine/not-executed",
        f"{message} ({finding.message.rstrip('.')}). Set dims, args and launch in gpuemu.toml.",
        finding.place,
        kernel=finding.kernel,
        dtype=finding.dtype,
        dims=finding.dims,
        states_sizes=finding.states_sizes,
        data={"refused": True} if finding.rule == "sync/trap" or finding.cause is Cause.TIME_LIMIT else {},
        severity=Severity.HINT,
    )


def is_refusal(finding: Finding) -> bool:
    """Return whether a hint is about sizes that a trap of the kernel refuses, or that take too long.

    After another hang the kernel may be at fault, and after an access out of bounds a length that was assumed.
    """
    return finding.data.get("refused") is True


def checked_in_part(finding: Finding, completed: int, cases: int) -> Finding:
    """Return such a hint about a kernel of which other cases ran to completion."""
    message = finding.message.replace("was not checked:", f"was checked on {completed} of {cases} cases only:")
    return replace(finding, rule="config/launch-inferred", message=message) if completed else finding


def claim_on_guessed_launch(
    finding: Finding, event: Event, plan: Plan, case: Case, independent: Independent = nothing_known
) -> Finding:
    """Return the finding of an event with the severity that holds for every launch the author may have in mind.

    ``independent`` returns :func:`~.value_dependence.independent_of_values`.
    """
    claimed = _claim_on_guessed_sizes(finding, event, plan, case)
    if claimed.severity is Severity.ERROR and may_differ(event, plan, case, independent):
        return with_assumption(claimed, plan)
    return claimed


def _claim_on_guessed_sizes(finding: Finding, event: Event, plan: Plan, case: Case) -> Finding:
    if event.rule == "engine/timeout":
        # Other sizes would be translated to the same code.
        return replace(finding, rule="engine/not-executed", severity=Severity.HINT)
    if event.rule in _INCOMPLETE_RULES:
        return not_checked(finding)
    tensors = {arg.param: arg for arg in plan.args if isinstance(arg, TensorArg)}
    known = tensors.get(event.buffer or "")
    if event.buffer in plan.uncertain_lengths:
        return not_checked(finding)
    if known is not None and known.texture is not None and not event.rule.endswith("-race"):
        return _as_information(finding, _TEXTURE_EXTENT)
    own = event.buffer == LOCAL_MEMORY
    if own and _is_far(event):
        # The address is no array's: the kernel read it from memory, or computed it from sizes that do not fit together.
        return not_checked(finding)
    outside = known is None and event.rule == "memory/out-of-bounds"
    if len(plan.unknown_sizes) > 1 or (plan.unknown_sizes and (outside or len(plan.dims) > _MAX_INDEPENDENT)):
        # They may depend on the arguments: the program need not launch it with these together.
        return _as_information(finding, _UNKNOWN_SIZES.format(", ".join(sorted(plan.unknown_sizes))))
    if known is None and not own and _is_of_another_block(plan, case):
        return _as_information(finding, _ASSUMED_BLOCK)
    if known is None and not own and plan.assumed_block and event.rule in _ARRAY_RULES:
        # Shared arrays are declared for one number of threads.
        return _as_information(finding, _ASSUMED_BLOCK)
    threads = math.prod(case.block)
    small = plan.assumed_block and any(size < threads for size in case.dims.values())
    if event.rule in (_LARGER_BLOCK_RULES if plan.fixed_block else _PARTIAL_BLOCK_RULES if small else ()):
        return _as_information(finding, _ASSUMED_BLOCK)
    if event.rule == "memory/uninitialized-read" and known is not None:
        # That the argument is an output was guessed; an input is always initialised.
        return _as_information(finding)
    if known is not None and needs_multiples(event, known):
        # A kernel that loads float4 may be called with multiples of four only.
        return _as_information(finding, _MULTIPLE_OF)
    if event.rule == "memory/out-of-bounds" and known is None and _is_capacity(event, case):
        return _as_information(finding)
    return finding


_UNKNOWN_SIZES = "; the program does not determine {}"
_ASSUMED_BLOCK = "; the block size is an assumption"
_TEXTURE_EXTENT = "; the extents of the texture or surface are assumptions"
_MULTIPLE_OF = "; if sizes are always multiples, set `multiple_of` in `dims` in gpuemu.toml"


def _as_information(finding: Finding, note: str = "") -> Finding:
    return replace(finding, severity=Severity.INFORMATION, message=f"{finding.message}{note}")


def _is_of_another_block(plan: Plan, case: Case) -> bool:
    """Return whether no template argument of the instance is an extent of the block, as the size of a tile is."""
    arguments = [int(text) for text in re.findall(r"\b\d+\b", plan.entry.partition("<")[2])]
    return bool(arguments) and not {*case.block, math.prod(case.block)} & set(arguments)


def needs_multiples(event: Event, arg: TensorArg) -> bool:
    """Return whether an access is right for sizes that the width of the access divides."""
    if event.instruction.startswith(_COLLECTIVE):
        return event.rule in _ADDRESS_RULES or event.rule.endswith("-race")
    return event.rule == "memory/misaligned" or (event.rule in _ADDRESS_RULES and _is_vector(event, arg))


def _is_vector(event: Event, arg: TensorArg) -> bool:
    """Return whether one access covers several elements of the parameter's type."""
    # Of a vector access the event may report only the element that is out of bounds: the instruction decides first.
    if arg.lanes == 1 and _VECTOR.search(event.instruction):
        return True
    return event.size is not None and event.size > dtype_size(arg.dtype) * arg.lanes


def _is_far(event: Event) -> bool:
    """Return whether an access is nowhere near the memory that it is attributed to."""
    return event.offset is not None and not -_FAR <= event.offset <= _FAR


def _is_capacity(event: Event, case: Case) -> bool:
    """Return whether an array of fixed length is shorter than a size, which its author may never exceed."""
    if event.offset is None or event.offset < 0 or not event.size:
        return False
    return event.offset // event.size < max(case.dims.values(), default=0)
