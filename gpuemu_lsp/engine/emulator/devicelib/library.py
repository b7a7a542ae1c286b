"""The shared runtime functions as machine code, made on first use."""

from __future__ import annotations

from functools import cache

from gpuemu_lsp.engine.emulator.devicelib import async_copy, mbarrier, race_detector
from gpuemu_lsp.engine.emulator.devicelib.checked_access import build_runtime
from gpuemu_lsp.engine.emulator.jit import disk_cache
from gpuemu_lsp.engine.emulator.jit.compile import LoadedCode, compile_object, define, load_object, target_description
from gpuemu_lsp.engine.emulator.llvm.ir_tools import ExternalFunction

_NAMES = (
    *("record_event", "check_access", "load", "store", "load_row", "store_row", "affine_addresses", "run_blocks"),
    *(*async_copy.NAMES, *mbarrier.NAMES, *race_detector.NAMES),
)


@cache
def _runtime() -> LoadedCode:
    key = disk_cache.key_of(("runtime", target_description()))
    disk = disk_cache.shared_cache()
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
        address = ExternalFunction(_runtime().addresses[name])
        address.name = f"gpuemu_{name}"
        return address

    def link(self) -> None:
        """Make the runtime's functions known to code that is loaded from now on."""
        _runtime()


DEVICE_LIBRARY = _Runtime()
