"""What the event of one access says by itself about the access: its width, and where it is."""

from __future__ import annotations

import re

from gpuemu_lsp.engine.element_types import dtype_size
from gpuemu_lsp.engine.execution import LOCAL_MEMORY, Event
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.model import TensorArg

_FAR = 1 << 24
"""Bytes from an array at which an access is not one of its."""
_COLLECTIVE = ("wmma", "ldmatrix", "stmatrix")
"""Instructions by which a warp loads or stores a whole tile."""
_VECTOR = re.compile(r"\.v[248]\b")


def needs_multiples(event: Event, arg: TensorArg) -> bool:
    """Return whether an access is right for sizes that the width of the access divides."""
    if event.rule == "memory/misaligned":
        return True
    reaches_others = event.rule == "memory/out-of-bounds" or event.rule.endswith("-race")
    return reaches_others and (event.instruction.startswith(_COLLECTIVE) or _is_vector(event, arg))


def is_far_from_arrays(event: Event | None) -> bool:
    """Return whether an access to local memory is nowhere near an array.

    The kernel read the address from memory, or computed it from sizes that do not fit together.
    """
    if event is None or event.buffer != LOCAL_MEMORY:
        return False
    return event.offset is not None and not -_FAR <= event.offset <= _FAR


def leaves_global_memory(event: Event | None) -> bool:
    """Return whether a race in shared memory has an access to global memory: far behind the end of its array."""
    if event is None or event.rule != "memory/shared-race":
        return False
    # An asynchronous copy has both spaces in its name, and writes shared memory.
    return any(".global" in name and not name.startswith("cp.") for _, name in event.accesses)


def _is_vector(event: Event, arg: TensorArg) -> bool:
    """Return whether one access covers several elements of the parameter's type."""
    # Of a vector access the event may report only the element that is out of bounds: the instruction decides first.
    if arg.lanes == 1 and _VECTOR.search(event.instruction):
        return True
    return event.size is not None and event.size > dtype_size(arg.dtype) * arg.lanes


def is_in_array(event: Event) -> bool:
    """Return whether an access is to shared or local memory."""
    return ".shared" in event.instruction or ".local" in event.instruction


def is_capacity(event: Event, case: Case) -> bool:
    """Return whether an access behind an array of fixed length is at an index that some size allows."""
    if event.rule != "memory/out-of-bounds" or event.offset is None or event.offset < 0 or not event.size:
        return False
    return event.offset // event.size < max(case.dims.values(), default=0)
