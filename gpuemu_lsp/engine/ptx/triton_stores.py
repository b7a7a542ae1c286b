"""Order of loads and stores within a program of Triton.

A Triton program is sequential: ``c = tl.load(p)`` before ``tl.store(p, c + 1)`` reads the old value. Triton's compiler
lets every warp load a scalar, or its part of a tensor, and emits no barrier before the store. On a GPU the warps of a
program run side by side, so that loads are issued long before another warp's store; an emulator that runs one warp up
to the next barrier would let the others load the new value. A barrier before each store that follows a load keeps the
order of the language. Control flow of Triton's programs is uniform but for atomic operations, which have no such store.
"""

from __future__ import annotations

import re

_BEGIN_ASM = re.compile(r"\s*// begin inline asm$")
_END_ASM = re.compile(r"\s*// end inline asm$")
_BLOCK_LABEL = re.compile(r"\$L__BB\d+_\d+:")
_FUNCTION = re.compile(r"(?:\.visible |\.weak |\.extern )*\.(entry|func)\b")
_LOAD = re.compile(r"\bld(?:\.\w+)*\.global\b|\bcp\.async\b")
_STORE = re.compile(r"\bst(?:\.\w+)*\.global\b")
_BARRIER = re.compile(r"\s*(?:bar|barrier)(?:\.cta)?\.sync(?:\.aligned)?\s+([^;]+?)\s*;")
_ONE_WARP = re.compile(r"\.reqntid 32\b")


def with_ordered_stores(ptx: str) -> str:
    """Return Triton's PTX with a barrier before each store to global memory that a load may precede.

    Line numbers stay as they are. PTX of one warp is returned unchanged, and so is PTX whose warps do different work
    (warp specialisation), which has barriers for some of the warps.
    """
    lines = ptx.split("\n")
    barriers = {match.group(1) for match in map(_BARRIER.match, lines) if match}
    if _ONE_WARP.search(ptx) or barriers - {"0"} or not _LOAD.search(ptx):
        return ptx
    loaded, begin = False, None
    for number, line in enumerate(lines):
        function = _FUNCTION.match(line)
        if function:
            loaded = function.group(1) == "func"
        elif _BLOCK_LABEL.match(line):
            # Whatever block control comes from may have loaded.
            loaded = True
        elif _BEGIN_ASM.match(line):
            begin = number
        elif _END_ASM.match(line):
            begin = None
        elif _LOAD.search(line):
            loaded = True
        elif _BARRIER.match(line):
            loaded = False
        elif loaded and begin is not None and _STORE.search(line):
            lines[begin] = f"\tbar.sync \t0;{lines[begin]}"
            loaded = False
    return "\n".join(lines)
