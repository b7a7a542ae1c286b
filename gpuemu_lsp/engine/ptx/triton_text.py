"""What a runtime that gets PTX alone has to know of the language that it was compiled from.

Programs of Triton have no threads that their author wrote: how the elements of a program are spread over threads is the
compiler's choice, and so is its shared memory. Reports name the program instead of a block and a thread, and races
between the threads of a program are not looked for.
"""

from __future__ import annotations

from typing import Final

_MARK: Final = "/* programs without threads */ "


def without_threads(ptx: str) -> str:
    """Return PTX whose kernels are marked as programs without threads; its lines stay as they are."""
    return f"{_MARK}{ptx}"


def has_threads(ptx: str) -> bool:
    """Return whether the kernels of PTX are written for threads, as those that are not marked are."""
    return not ptx.startswith(_MARK)
