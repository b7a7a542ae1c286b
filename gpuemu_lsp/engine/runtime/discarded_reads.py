"""Uninitialised reads of shared memory whose values a launch of the program discards.

As in checks (:mod:`gpuemu_lsp.engine.check.causes.discarded_reads`): such a read changes no byte of a result, whatever
the memory holds. The launch is made again with other contents of its shared memory; what it had written is dropped.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gpuemu_lsp.engine.emulator.executor import Emulator
from gpuemu_lsp.engine.emulator.launch.lasting.memory import LastingMemory
from gpuemu_lsp.engine.execution import Outcome, Request

_FILLS = (0x00, 0xFF, 0x7F, 0xFE)
"""Zero, NaN (-1), and a large positive and a large negative number, which ``min`` and ``max`` do not drop both."""

_MOST_MS = 5_000.0
"""Time of a launch up to which it is made again."""


def discards_its_reads(emulator: Emulator, memory: LastingMemory, request: Request, outcome: Outcome) -> bool:
    """Return whether the events of a launch are such reads. Afterwards memory is as the launch has left it."""
    events = outcome.events
    if not events or outcome.status != "completed" or outcome.launch_ms > _MOST_MS:
        return False
    if any(one.rule != "memory/uninitialized-read" or ".shared" not in one.instruction for one in events):
        return False
    written = memory.written()
    for fill in _FILLS:
        other = emulator.run(replace(request, fill=fill))
        again = memory.written()
        same = other.status == outcome.status and other.printed == outcome.printed and again.keys() == written.keys()
        if not same or not all(np.array_equal(contents, again[pages]) for pages, contents in written.items()):
            emulator.run(request)
            return False
    return True
