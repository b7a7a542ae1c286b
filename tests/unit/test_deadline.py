"""Interruption of Python code at a deadline, also where it arrives in a finaliser."""

from __future__ import annotations

import time

import pytest

from gpuemu_lsp.engine.deadline import DeadlineError, deadline


class SlowFinalizer:
    """Object whose finaliser runs for longer than the deadline of the tests."""

    def __del__(self) -> None:
        ends = time.monotonic() + 0.1
        while time.monotonic() < ends:
            pass


def test_an_interruption_in_a_finalizer_is_not_lost() -> None:
    # Python reports an exception in __del__ as unraisable and continues; pytest makes a failure of it.
    ends = time.monotonic() + 60
    with pytest.raises(DeadlineError, match=r"0\.02 s"), deadline(0.02):
        SlowFinalizer()
        while time.monotonic() < ends:
            pass
