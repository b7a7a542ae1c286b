"""For every test: an interrupt means what it means in a terminal.

A shell that starts the tests in the background lets them ignore it, and every process they start then ignores it too.
"""

from __future__ import annotations

import contextlib
import signal

if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    with contextlib.suppress(ValueError):  # only the main thread may
        signal.signal(signal.SIGINT, signal.default_int_handler)
