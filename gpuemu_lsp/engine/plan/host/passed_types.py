"""Types of the arguments that a Python module launches a kernel with, compared with those of the parameters.

CuPy and PyCUDA pass the address of an array, and the bytes of a number, as they are: nothing converts them to the type
of the parameter, as the compiler does with the arguments of ``<<<>>>``.
"""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.element_types import element_type
from gpuemu_lsp.engine.findings import Finding, ModulePlace, Range
from gpuemu_lsp.engine.hostcode.values import FloatValue, HostLaunch, Pointer, Value
from gpuemu_lsp.engine.plan.context import KernelContext, lines_of
from gpuemu_lsp.engine.plan.host.chosen_launches import host_launches
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import Param
from gpuemu_lsp.engine.symbolic.size import Size

_RULE = "api/argument-type"
_BITS = {
    **{f"{kind}{bits}": bits for kind in ("int", "uint", "float") for bits in (16, 32, 64)},
    "bfloat16": 16,
}
"""Bits of the types that are compared; memory of bytes may have elements of any type."""


def wrong_arguments(context: KernelContext) -> Iterator[Finding]:
    """Yield an error for each argument of a launch in Python of which the kernel reads the bytes as another type."""
    module, seen = context.source.module, set[tuple[int, str]]()
    if module is None:
        return
    for found in host_launches(context.source, context.declaration.name, context.spec.include_dirs):
        launch = found.launch
        if launch.code is not None or launch.path != context.source.path:
            continue
        for param, value in zip(context.declaration.params, launch.arguments, strict=False):
            difference = _difference(context, param, value, launch)
            if difference and (launch.line, param.name) not in seen:
                seen.add((launch.line, param.name))
                message = f"This launch of '{context.declaration.name}' passes {difference}."
                yield make(_RULE, message, _place(context, module.text, launch.line), kernel=context.spec.name)


def _difference(context: KernelContext, param: Param, value: Value, launch: HostLaunch) -> str:
    """Return what the launch passes and the kernel reads, empty if they may agree."""
    known = element_type(param.type, context.type_aliases)
    if known is None or known.lanes != 1 or known.dtype not in _BITS or param.pointer_depth > 1:
        return ""
    if param.pointer:
        memory = launch.memory.get(value.allocation or 0) if isinstance(value, Pointer) else None
        passed = "" if memory is None else memory.dtype
        if passed not in _BITS or not _is_misread(passed, known.dtype):
            return ""
        return f"an array of {passed} for '{param.name}', whose elements the kernel reads as {param.type}"
    if isinstance(value, Size) and value.constant is not None and known.dtype.startswith("float"):
        return (
            f"the integer {value.constant} for '{param.name}', whose bytes the kernel reads as {param.type}: pass "
            f"numpy.{known.dtype}({value.constant})"
        )
    if isinstance(value, FloatValue) and value.type in _BITS and value.type != known.dtype:
        what = "a number of Python, which is a double," if value.type == "float64" else f"a {value.type}"
        return f"{what} for '{param.name}', whose bytes the kernel reads as {param.type}: pass numpy.{known.dtype}(...)"
    return ""


def _is_misread(passed: str, read: str) -> bool:
    """Return whether no kernel means this.

    Floating-point numbers may be read as integers of their size, for their bits, and half-precision numbers may be
    16-bit integers of the host.
    """
    if _BITS[passed] != _BITS[read]:
        return True
    return _BITS[read] > 16 and read.startswith("float") and not passed.startswith("float")


def _place(context: KernelContext, text: str, line: int) -> ModulePlace:
    written = lines_of(text)[line]
    return ModulePlace(
        context.source.path, Range.of(line, len(written) - len(written.lstrip()), line, len(written.rstrip()))
    )
