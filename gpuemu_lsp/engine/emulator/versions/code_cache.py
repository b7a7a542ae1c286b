"""Machine code of translation units: loaded in this process, from disk, or compiled."""

from __future__ import annotations

from typing import Final

from gpuemu_lsp.engine.emulator.codegen.core.translation_unit import TranslationUnit
from gpuemu_lsp.engine.emulator.codegen.instructions.matrix import link_products
from gpuemu_lsp.engine.emulator.codegen.translate import translate
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.jit import disk_cache
from gpuemu_lsp.engine.emulator.jit.compile import LoadedCode, load_object
from gpuemu_lsp.engine.emulator.jit.translation_limit import compile_within_limit

_BASELINE_LEVEL: Final = 0
_OPTIMISED_LEVEL: Final = 1
"""Optimisation levels of the two tiers. Level 1: NVRTC has optimised the PTX already."""

_MAX_LOADED: Final = 64
_loaded: dict[bytes, LoadedCode] = {}


def clear_code_cache() -> None:
    """Drop this process's machine code, except what kernels hold; benchmarks measure compilation after it."""
    _loaded.clear()


def load_or_compile(texts: tuple[str, ...], unit: TranslationUnit, *, optimised: bool) -> LoadedCode:
    """Return the code of a unit: loaded before in this process, from disk, or compiled.

    Baseline code is not compiled where optimised code of the same unit exists.
    """
    level = _OPTIMISED_LEVEL if optimised else _BASELINE_LEVEL
    keys = [disk_cache.key_of((f"level {one}", *texts)) for one in range(_OPTIMISED_LEVEL, level - 1, -1)]
    key = next((key for key in keys if key in _loaded), keys[-1])
    # Taken out and put back at the end: the dictionary is ordered by last use, and the oldest entry goes first.
    loaded = _loaded.pop(key, None)
    if loaded is None:
        DEVICE_LIBRARY.link()
        link_products(unit.program)
        disk = disk_cache.shared_cache()
        code = None
        for key in keys:
            code = disk.load(key)
            if code is not None:
                break
        if code is None:
            code = compile_within_limit(str(translate(unit)), level)
            disk.store(key, code)
        loaded = load_object(code, ("warp",))
    _loaded[key] = loaded
    while len(_loaded) > _MAX_LOADED:
        del _loaded[next(iter(_loaded))]
    return loaded
