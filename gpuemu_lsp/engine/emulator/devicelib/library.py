"""Builds the device library on first use in a process, and links generated code with it."""

from __future__ import annotations

from functools import cache
from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.devicelib import (
    async_copy,
    block_claims,
    checked_access,
    cluster,
    mbarrier,
    race_detector,
    row_access,
    surfaces,
    textures,
)
from gpuemu_lsp.engine.emulator.devicelib.block_scheduler import add_block_scheduler
from gpuemu_lsp.engine.emulator.jit import disk_cache
from gpuemu_lsp.engine.emulator.jit.compile import LoadedCode, compile_object, define, load_object, target_description
from gpuemu_lsp.engine.emulator.llvm.ir_tools import ExternalFunction, Value

_NAMES: Final = (
    *("record_event", "check_access", "load", "store", "load_row", "store_row", "affine_addresses", "run_blocks"),
    *(
        *async_copy.NAMES,
        *mbarrier.NAMES,
        *cluster.NAMES,
        *block_claims.NAMES,
        *race_detector.NAMES,
        *surfaces.NAMES,
        *textures.NAMES,
    ),
)


def build_library() -> ir.Module:
    """Return the LLVM module of the device library."""
    module = ir.Module("runtime")
    # Bottom up: each function is built with the functions that it calls.
    event = checked_access.add_record_event(module)
    check = checked_access.add_check_access(module, event)
    race = race_detector.add_race_detector(module)
    checked_access.add_affine_addresses(module)
    loads, stores = (_add_accesses(module, check, race, is_store=is_store) for is_store in (False, True))
    async_copy.add_async_copies(module, event, check, loads, stores)
    mbarrier.add_mbarrier(module, check, race)
    cluster.add_cluster_address(module)
    textures.add_textures(module, check)
    surfaces.add_surfaces(module)
    block_claims.add_block_claims(module)
    add_block_scheduler(module)
    return module


def _add_accesses(module: ir.Module, check: Value, race: Value, *, is_store: bool) -> Value:
    """Add the access functions of one direction; return the one that accesses lane by lane."""
    kind = "store" if is_store else "load"
    row_race, scattered_race = module.get_global(f"race_row_{kind}"), module.get_global(f"race_scattered_{kind}")
    whole_warp = row_access.add_warp_access(module, (row_race, scattered_race), is_store=is_store)
    by_lane = checked_access.add_access(module, check, race, whole_warp, is_store=is_store)
    row_access.add_row_access(module, by_lane, row_race, is_store=is_store)
    return by_lane


@cache
def _loaded() -> LoadedCode:
    # No version number: the key covers the sources of the translator, and these functions are built from them.
    key = disk_cache.key_of(("runtime", target_description()))
    disk = disk_cache.shared_cache()
    code = disk.load(key)
    if code is None:
        # Optimised in both tiers: it is compiled once per machine, and executes more often than any kernel.
        code = compile_object(build_library())
        disk.store(key, code)
    loaded = load_object(code, _NAMES)
    for name, address in loaded.addresses.items():
        # The prefix keeps names such as "load" from clashing with symbols of the process.
        define(f"gpuemu_{name}", address)
    return loaded


class _DeviceLibrary:
    """Addresses of the device library's functions by name."""

    def address(self, name: str) -> int:
        """Return the address of a function."""
        address = ExternalFunction(_loaded().addresses[name])
        address.name = f"gpuemu_{name}"
        return address

    def link(self) -> None:
        """Make the functions known to code that is loaded from now on."""
        _loaded()


DEVICE_LIBRARY: Final = _DeviceLibrary()
