"""``gpuemu run SCRIPT.py`` and ``gpuemu run -m MODULE``: Python programs whose kernels are Triton's or numba-cuda's."""

from __future__ import annotations

import importlib
import importlib.util
import runpy
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.runtime.program import ProgramRun

_FRAMEWORKS = {"gpuemu.triton": "triton", "gpuemu.numba": "numba_cuda"}
"""Our package for a framework, by the framework's own."""

_CUPY = (
    "CuPy's arrays need CUDA's own runtime and a GPU, so that this script cannot run here. The kernels of its "
    "RawKernel and RawModule are checked from their text: gpuemu-lsp --check FILE"
)


def run_python(words: Sequence[str], *, module: bool) -> ProgramRun:
    """Run a script, or a module with ``module``, in this process; ``words`` are its name and its arguments.

    Launches run in the emulator. The program's standard streams are those of this process.
    """
    started = time.monotonic()
    sessions: list[Any] = []
    problem: str | None = None
    notes: tuple[str, ...] = ()
    status = 0
    with _as_main(words, module=module):
        try:
            sessions = [
                importlib.import_module(ours).activate(on_finding="collect")
                for ours, theirs in _FRAMEWORKS.items()
                if importlib.util.find_spec(theirs) is not None
            ]
            if not sessions:
                notes = ("neither Triton nor numba-cuda is installed: pip install 'gpuemu-lsp[triton]'",)
            if module:
                runpy.run_module(words[0], run_name="__main__", alter_sys=True)
            else:
                runpy.run_path(words[0], run_name="__main__")
        except SystemExit as stop:
            status = _status(stop)
        except KeyboardInterrupt:
            problem, status = "interrupted", 130
        except BaseException:  # the program's own error, shown as Python shows it
            traceback.print_exc()
            status = 1
        finally:
            # What runs at the end of the process is not part of the program.
            sys.stdout.flush()
    if "cupy" in sys.modules:
        notes = (*notes, _CUPY)
    launches = [record for session in sessions for record in session.launches]
    return ProgramRun(
        exit_status=status,
        launches=len(launches),
        completed=sum(record.status in ("completed", "trapped") for record in launches),
        repeated=0,
        seconds=time.monotonic() - started,
        findings=tuple(finding for session in sessions for finding in session.findings),
        problem=problem,
        notes=notes,
    )


@contextmanager
def _as_main(words: Sequence[str], *, module: bool) -> Iterator[None]:
    """Set the arguments and the search path as ``python`` does."""
    arguments, path = sys.argv, sys.path
    sys.argv = list(words)
    sys.path = ["" if module else str(Path(words[0]).resolve().parent), *path]
    try:
        yield
    finally:
        sys.argv, sys.path = arguments, path


def _status(stop: SystemExit) -> int:
    if stop.code is None or isinstance(stop.code, int):
        return stop.code or 0
    print(stop.code, file=sys.stderr)
    return 1
