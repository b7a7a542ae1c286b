"""What is replaced in Warp in the process of a program, once it has imported the module that loads its library."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from gpuemu_lsp.engine.runtime.python_process.runtime_library import runtime_library
from gpuemu_lsp.engine.runtime.warp_launches import LIBRARY_VARIABLE

_THEIRS = ("wp_cuda_compile_", "wp_nvrtc_", "wp_cuda_toolkit_version")
"""Begins of the names of functions that need NVRTC, which is in Warp's library."""
_INIT = "_Z9cuda_initv"


def install(context: ModuleType) -> None:
    """Let ``Runtime`` of ``warp._src.context`` call our part of its library, and keep the lines of kernels in PTX."""
    runtime_library()
    context.Runtime.load_dll = _with_our_part(context.Runtime.load_dll)
    context.ModuleHasher.hash_adjoint = _with_place(context.ModuleHasher.hash_adjoint)
    context.warp.config.lineinfo = True
    context.warp.config.cuda_output = "ptx"


def _with_our_part(load: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(load)
    def loaded(runtime: Any, path: str) -> Any:
        if Path(path).name != "warp.so":
            return load(runtime, path)
        # Our part calls functions of the host from theirs.
        theirs = ctypes.CDLL(path, ctypes.RTLD_GLOBAL)
        return NativeLibrary(theirs, ctypes.CDLL(os.environ[LIBRARY_VARIABLE], ctypes.RTLD_GLOBAL))

    return loaded


def _with_place(identify: Callable[..., bytes]) -> Callable[..., bytes]:
    """Let the identity of a function have its file and first line: Warp keeps compiled modules, which have lines."""

    @wraps(identify)
    def identified(hasher: Any, function: Any) -> bytes:
        place = f"{function.filename}:{function.fun_lineno}"
        return identify(hasher, function) + place.encode("utf-8", "surrogateescape")

    return identified


class NativeLibrary:
    """Warp's library as Warp calls it: functions that call CUDA are those of our part."""

    def __init__(self, theirs: ctypes.CDLL, ours: ctypes.CDLL) -> None:
        self._theirs, self._ours = theirs, ours

        def initialise(_: object) -> int:
            getattr(ours, _INIT)()
            return 0

        self.wp_init = initialise

    def __getattr__(self, name: str) -> Any:
        function = None if name.startswith(_THEIRS) else getattr(self._ours, name, None)
        if function is None:
            function = getattr(self._theirs, name)
            if name.endswith("_device"):
                function = _refused(name)
        setattr(self, name, function)
        return function


def _refused(name: str) -> Any:
    """Return a function in place of one of the device that our part does not have."""

    def refused(*_: object) -> NoReturn:
        raise NotImplementedError(f"gpuemu does not run `{name}` of Warp's library: it is not among what is compiled")

    return refused
