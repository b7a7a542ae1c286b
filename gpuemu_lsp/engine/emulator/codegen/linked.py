"""The shared runtime functions as machine code, made on first use."""

from __future__ import annotations

from functools import cache

from gpuemu_lsp.engine.emulator.codegen import copy_runtime
from gpuemu_lsp.engine.emulator.codegen.runtime import build_runtime
from gpuemu_lsp.engine.emulator.jit import Compiled, compile_module


@cache
def _runtime() -> Compiled:
    return compile_module(
        build_runtime(), ("event", "check", "load", "store", "addresses", "conduct", *copy_runtime.NAMES)
    )


class _Runtime:
    """Addresses of runtime functions by name."""

    def address(self, name: str) -> int:
        """Return the address of a runtime function."""
        return _runtime().addresses[name]


RUNTIME = _Runtime()
