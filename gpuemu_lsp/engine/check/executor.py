"""Where a kernel runs: the emulator by default, a GPU when asked for."""

from __future__ import annotations

from functools import cache

from gpuemu_lsp.engine.check.model import CheckRequest
from gpuemu_lsp.engine.execution import Executor
from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.rules import make


def choose_executor(request: CheckRequest, place: Place) -> tuple[Executor | None, Finding | None]:
    """Return the executor, and a hint where the wish could not be met.

    ``auto`` is the emulator: only it has the memory and synchronisation checkers, and its verdict is the same on
    every machine.
    """
    if request.options.executor != "gpu":
        return _emulator(), None
    from gpuemu_lsp.engine.device import available

    there, reason = available()
    if there:
        return _device(), None
    message = f"'{request.spec.name}' was to run on a GPU: {reason}. The emulator ran it instead."
    return _emulator(), make("engine/no-gpu", message, place, kernel=request.spec.name)


@cache
def _emulator() -> Executor:
    from gpuemu_lsp.engine.emulator import Emulator

    executor: Executor = Emulator()
    return executor


@cache
def _device() -> Executor:
    from gpuemu_lsp.engine.device import Device

    executor: Executor = Device()
    return executor
