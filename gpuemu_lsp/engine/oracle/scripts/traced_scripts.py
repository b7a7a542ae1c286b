"""Scripts with a standard input, run so that their operations round.

A plain run gets plain arrays: only its inputs can be perturbed. That does not show the rounding of one step that
another one does not share, as of the mean in ``(x - mean) / deviation`` with two values in a row: both follow a
perturbed input. Here NumPy returns traced arrays (:mod:`..trace`) to the script and to the modules next to it, however
they decode what they read, and operations of PyTorch round where they are dispatched (:mod:`..torch_reference`).
Numbers of Python itself do not.

The process is forked from one that has imported this module, in the interpreter of gpuemu-lsp. It is the script's own:
it may start threads and processes, and end in any way.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import json
import os
import sys
import sysconfig
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu_lsp.engine.fuzz.dtypes import FloatFormat
from gpuemu_lsp.engine.oracle.rounding import MonteCarloArithmetic
from gpuemu_lsp.engine.oracle.scripts.script_processes import ScriptServerError, run_script
from gpuemu_lsp.engine.oracle.scripts.script_server import execute
from gpuemu_lsp.engine.oracle.torch_reference import rounding_operations
from gpuemu_lsp.engine.oracle.trace import traced_numpy


def traced_output(path: str, document: bytes, arithmetic: MonteCarloArithmetic) -> bytes | None:
    """Return what a script writes for a document, with rounding errors; None if it cannot be traced.

    Operations and leaks are counted in ``arithmetic``.
    """
    options = {"module": __name__, **arithmetic.settings(), "seconds": arithmetic.ends - time.thread_time()}
    try:
        done = run_script(sys.executable, path, document, (__name__,), options)
    except ScriptServerError:
        return None
    if done.status != 0 or not done.report:
        # Of any kind: a package that this environment lacks, or an array that cannot be traced.
        return None
    counted = json.loads(done.report)
    arithmetic.operations += counted["operations"]
    arithmetic.leaks += counted["leaks"]
    return done.output if counted["operations"] else None


# ---- in the forked process -------------------------------------------------------------------------------------------


def run(path: str, options: Mapping[str, Any], report: int) -> None:
    """Run a script as the main program of this process, in the arithmetic of ``options``."""
    settings = (options["unit"], options["function_unit"], FloatFormat(**options["form"]))
    arithmetic = MonteCarloArithmetic(*settings, options["seed"], options["sign"])
    arithmetic.ends = time.thread_time() + options["seconds"]
    _report_at_end(arithmetic, report)
    np.seterr(all="ignore")
    with contextlib.ExitStack() as stack:
        builtins.__import__ = _TracedImports(arithmetic, stack)  # type: ignore[assignment]
        execute(path)


def _report_at_end(arithmetic: MonteCarloArithmetic, report: int) -> None:
    own, leave = os.getpid(), os._exit

    def counted() -> None:
        if os.getpid() == own:
            counts = {"operations": arithmetic.operations, "leaks": arithmetic.leaks}
            os.pwrite(report, json.dumps(counts).encode(), 0)

    def left(status: int) -> None:
        counted()
        leave(status)

    atexit.register(counted)
    os._exit = left  # type: ignore[assignment]


class _TracedImports:
    """``__import__`` that gives the user's files a NumPy whose arrays are traced, and lets PyTorch round."""

    def __init__(self, arithmetic: MonteCarloArithmetic, stack: contextlib.ExitStack) -> None:
        self._arithmetic = arithmetic
        self._stack = stack
        self._numpy = traced_numpy(arithmetic)
        self._import = builtins.__import__
        self._torch = False
        self._libraries = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "platstdlib"))

    def __call__(self, name: str, namespace: Any = None, *rest: Any, **options: Any) -> Any:
        module = self._import(name, namespace, *rest, **options)
        if not self._is_own((namespace or {}).get("__file__")):
            return module
        if name.partition(".")[0] == "torch" and not self._torch:
            self._torch = True
            self._stack.enter_context(rounding_operations(self._arithmetic))
        return self._numpy if module is np else module

    def _is_own(self, file: str | None) -> bool:
        if file is None or {"site-packages", "dist-packages"} & set(Path(file).parts):
            return False
        return not file.startswith(self._libraries)
