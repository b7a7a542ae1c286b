"""Bulk copies to shared memory that have not arrived, and their arrival at a test of their ``mbarrier`` object."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.devicelib.mbarrier import after_transactions, is_over, outstanding
from gpuemu_lsp.engine.emulator.launch.arena import Arena
from gpuemu_lsp.engine.emulator.launch.tma.places import Places, scatter
from gpuemu_lsp.engine.emulator.launch.tma.reductions import reduce_into
from gpuemu_lsp.engine.emulator.launch.tma.targets import CopyIssuer


@dataclass(frozen=True, slots=True)
class PendingCopy:
    """A copy that has not arrived: values and shadow by shared address; a reduction by name and element type.

    ``values`` and ``shadow`` have the shape (bytes,).
    """

    places: Places
    values: npt.NDArray[np.uint8]
    shadow: npt.NDArray[np.uint8]
    issuer: CopyIssuer
    reduction: tuple[str, str] | None = None

    @property
    def count(self) -> int:
        """Bytes that the copy completes."""
        return self.values.size


class PendingCopies:
    """The copies in flight of one launch, by the address of the ``mbarrier`` object that they complete on.

    ``report`` is called with a copy that may arrive after the wait for it.
    """

    def __init__(self, arena: Arena, report: Callable[[CopyIssuer, str, str], None]) -> None:
        self._arena, self._report = arena, report
        self._pending: dict[int, list[tuple[int, PendingCopy]]] = {}
        self._unknown: set[int] = set()

    def add(self, barrier: int, block: int, copy: PendingCopy) -> None:
        """Put a copy into flight that completes on an object in the shared memory of a block."""
        self._pending.setdefault(barrier, []).append((block, copy))

    def add_unknown(self, barrier: int) -> None:
        """Note a copy that was not executed, after a report: the phase of its ``mbarrier`` ends all the same."""
        self._unknown.add(barrier)

    def deliver(
        self, barrier: int, block: int, operand: int, arrived: Callable[[PendingCopy], None], *, by_parity: bool
    ) -> None:
        """Let copies arrive that complete on an object, before a block tests it; ``arrived`` is called with each."""
        # A test that succeeds anyway is of an earlier phase than that in which copies are in flight.
        state = self.word(barrier)
        if state is None or is_over(state, operand, by_parity=by_parity):
            return
        # Otherwise the launch would not end.
        if barrier in self._unknown:
            self._unknown.discard(barrier)
            self._complete(barrier, outstanding(state))
        # What a block has not waited for when it ends never arrives in another.
        arriving = [one for home, one in self._pending.pop(barrier, ()) if home == block]
        for index, one in enumerate(arriving):
            now = self.word(barrier)
            if index and now is not None and is_over(now, operand, by_parity=by_parity):
                brought, total = (sum(each.count for each in part) for part in (arriving[:index], arriving))
                text = f"the phase of the mbarrier completes after {brought} of the {total} bytes that copies bring: "
                text += "`expect_tx` is too small, and this copy may still be in flight behind the wait"
                self._report(one.issuer, "sync/mbarrier", text)
            arrived(one)
            self._write(one)
            self._complete(barrier, one.count)

    def _write(self, one: PendingCopy) -> None:
        if one.reduction is not None:
            reduce_into(self._arena, one.places.addresses, one.values, *one.reduction)
            return
        scatter(self._arena.data, one.places, one.values)
        scatter(self._arena.shadow, one.places, one.shadow)

    def word(self, barrier: int) -> int | None:
        """Return the bits of an ``mbarrier`` object, None if there is no memory for one."""
        if barrier % 8 or not self._arena.contains(barrier, 8):
            return None
        if not (self._arena.shadow(barrier, 8) & Shadow.ADDRESSABLE).all():
            return None
        return int(self._arena.data(barrier, 8).view(np.uint64)[0])

    def _complete(self, barrier: int, count: int) -> None:
        word = self._arena.data(barrier, 8).view(np.uint64)
        word[0] = after_transactions(int(word[0]), count)
