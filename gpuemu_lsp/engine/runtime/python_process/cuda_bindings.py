"""The CUDA runtime of the package ``cuda.bindings``, which is linked into it: its functions are replaced by ours.

NVIDIA's runtime works with NVIDIA's driver only. Modules in Cython take the addresses of its functions from a table of
the module that has it, when they are imported: so the table is changed between the two imports.
"""

from __future__ import annotations

import ctypes
import importlib

from gpuemu_lsp.engine.runtime.python_process.runtime_library import runtime_library

USER = "cuda.bindings.cyruntime"
"""The module that takes the addresses."""

_OWNER = "cuda.bindings._internal.runtime"
_CAPSULE = ctypes.pythonapi
_CAPSULE.PyCapsule_GetName.restype = ctypes.c_void_p
_CAPSULE.PyCapsule_GetName.argtypes = [ctypes.py_object]
_CAPSULE.PyCapsule_New.restype = ctypes.py_object
_CAPSULE.PyCapsule_New.argtypes = [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p]


def install() -> None:
    """Replace the functions that our library has, if this version of the package has such a table."""
    try:
        table = importlib.import_module(_OWNER).__pyx_capi__
    except (ImportError, AttributeError):
        return
    ours = runtime_library()
    for name, capsule in list(table.items()):
        # A function in Cython is named as the function of C with `_` in front.
        function = getattr(ours, name.removeprefix("_"), None)
        if function is not None:
            address = ctypes.cast(function, ctypes.c_void_p)
            # Its name is the type of the function: Cython compares it. The replaced capsule owns the text.
            table[name] = _CAPSULE.PyCapsule_New(address, _CAPSULE.PyCapsule_GetName(capsule), None)
            _replaced.append(capsule)


_replaced: list[object] = []
