"""The shared runtime functions as machine code, made on first use."""

from __future__ import annotations

from functools import cache

from gpuemu_lsp.engine.emulator import object_cache
from gpuemu_lsp.engine.emulator.codegen import copy_runtime, mbarrier_runtime, race_runtime
from gpuemu_lsp.engine.emulator.codegen.ir_tools import Linked
from gpuemu_lsp.engine.emulator.codegen.runtime import build_runtime
from gpuemu_lsp.engine.emulator.jit import Compiled, compile_object, define, load_object, target_description

_NAMES = (
    *("event", "check", "load", "store", "load_row", "store_row", "addresses", "conduct"),
    *(*copy_runtime.NAMES, *mbarrier_runtime.NAMES, *race_runtime.NAMES),
)


@cache
def _runtime() -> Compiled:
    key = object_cache.key_of(("runtime", target_description()))
    disk = object_cache.shared_cache()
    code = disk.load(key)
    if code is None:
        code = compile_object(build_runtime())
        disk.store(key, code)
    compiled = load_object(code, _NAMES)
    for name, address in compiled.addresses.items():
        define(f"gpuemu_{name}", address)
    return compiled


class _Runtime:
    """Addresses of runtime functions by name."""

    def address(self, name: str) -> int:
        """Return the address of a runtime function."""
        address = Linked(_runtime().addresses[name])
        address.name = f"gpuemu_{name}"
        return address

    def link(self) -> None:
        """Make the runtime's functions known to code that is loaded from now on."""
        _runtime()


RUNTIME = _Runtime()
