"""Kernels of modules, which host code finds by their names.

A kernel of a module is launched by ``cuLaunchKernel`` after ``cuModuleGetFunction(&function, module, "kernel")``, and
the module may have been compiled by NVRTC, or by nvcc from a file that this program does not include.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeAlias

from gpuemu_lsp.engine.plan.host.machine import Machine
from gpuemu_lsp.engine.plan.host.values import HostFunctionName, Lvalue, StringValue, Unknown, Value
from gpuemu_lsp.engine.symbolic.size import ZERO

_Function: TypeAlias = "Callable[[Machine, list[Value], tuple[str, ...], str], Value]"
_LOOKUPS = ("cuModuleGetFunction", "cuLibraryGetKernel", "cudaLibraryGetKernel")
"""Functions that return the kernel of a name: its place, the module, the name."""
_NAME = re.compile(r"(?:::)?(?:\w+::)*(?P<name>[A-Za-z_]\w*)\s*(?:<(?P<arguments>.*)>)?")


def _lookup(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if len(values) >= 3 and isinstance(values[0], Lvalue):
        machine.assign(values[0], _named_kernel(values[2]))
    return ZERO


def _named_kernel(value: Value) -> Value:
    """Return the kernel that a string names, with its template arguments."""
    found = _NAME.fullmatch(value.text.strip()) if isinstance(value, StringValue) else None
    if found is None:
        return Unknown()
    listed = found["arguments"]
    return HostFunctionName(found["name"], tuple(one.strip() for one in listed.split(",")) if listed else ())


def _lowered_name(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    """Keep the name expression in place of its mangled name."""
    if len(values) >= 3 and isinstance(values[2], Lvalue):
        machine.assign(values[2], values[1])
    return ZERO


def _function_of_kernel(machine: Machine, values: list[Value], template: tuple[str, ...], name: str) -> Value:
    if len(values) >= 2 and isinstance(values[0], Lvalue):
        machine.assign(values[0], values[1])
    return ZERO


NAMED_KERNELS: dict[str, _Function] = {
    **dict.fromkeys(_LOOKUPS, _lookup),
    "nvrtcGetLoweredName": _lowered_name,
    "cuKernelGetFunction": _function_of_kernel,
}
