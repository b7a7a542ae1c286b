"""Scripts with a standard input, run in this process so that their operations round.

A process of its own gets plain arrays: only its inputs can be perturbed. That does not show the rounding of one step
that another one does not share, as of the mean in ``(x - mean) / deviation`` with two values in a row: both follow a
perturbed input. Here the arrays that the script decodes with ``numpy.frombuffer`` are traced ones.
"""

from __future__ import annotations

import contextlib
import io
import runpy
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu_lsp.engine.oracle.rounding import MonteCarloArithmetic
from gpuemu_lsp.engine.oracle.trace import traced

_PROCESS_WIDE = ("_exit", "fork", "subprocess", "multiprocessing", "threading", "signal", "atexit", "setrlimit")
"""Names in a script that may change or end the process that it runs in."""


def traced_output(path: str, document: bytes, arithmetic: MonteCarloArithmetic) -> bytes | None:
    """Return what a script writes for a document, with rounding errors; None if it cannot run in this process."""
    file = Path(path)
    if any(name in file.read_text(encoding="utf-8-sig", errors="replace") for name in _PROCESS_WIDE):
        return None
    decode, written = np.frombuffer, io.BytesIO()
    output = io.TextIOWrapper(written, encoding="utf-8", write_through=True)

    def decoded(*args: Any, **kwargs: Any) -> Any:
        return traced(decode(*args, **kwargs), arithmetic)

    with (
        _as_main(path),
        _replaced(np, "frombuffer", decoded),
        _replaced(sys, "stdin", io.TextIOWrapper(io.BytesIO(document), encoding="utf-8")),
        contextlib.redirect_stdout(output),
        contextlib.redirect_stderr(io.StringIO()),
        np.errstate(all="ignore"),
    ):
        try:
            runpy.run_path(path, run_name="__main__")
        except SystemExit as error:
            if error.code not in (None, 0):
                return None
        except Exception:  # of any kind: a package that this environment lacks, or an array that cannot be traced
            return None
    with contextlib.suppress(ValueError):
        output.flush()
    return None if written.closed else written.getvalue()


@contextlib.contextmanager
def _as_main(path: str) -> Iterator[None]:
    """Let a script run as in a process of its own: in its folder, with its arguments and modules."""
    folder = Path(path).parent
    modules, search, bytecode = set(sys.modules), list(sys.path), sys.dont_write_bytecode
    sys.dont_write_bytecode = True
    sys.path.insert(0, str(folder))
    try:
        with contextlib.chdir(folder), _replaced(sys, "argv", [path]):
            yield
    finally:
        sys.path[:], sys.dont_write_bytecode = search, bytecode
        for name in set(sys.modules) - modules:
            # Modules next to the script, which may differ in the next project; not packages that are installed.
            file = getattr(sys.modules[name], "__file__", None)
            if file is not None and Path(file).is_relative_to(folder.parent) and "site-packages" not in file:
                del sys.modules[name]


@contextlib.contextmanager
def _replaced(owner: Any, name: str, value: Any) -> Iterator[None]:
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)
