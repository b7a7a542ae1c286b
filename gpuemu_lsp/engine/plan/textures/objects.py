"""Texture and surface parameters of unregistered kernels: formats, sampling and extents.

The format is that of what the kernel reads, the sampling what the file assigns to a ``cudaTextureDesc`` wherever all
assignments agree, and point sampling of clamped coordinates otherwise. Extents are those of the launch, one texel for
each thread, or the sizes that the kernel is passed. They are assumptions, and nothing is claimed about them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpuemu_lsp.engine.element_types import ElementType, element_type
from gpuemu_lsp.engine.hostcode.ir import (
    Assign,
    CallExpression,
    Constant,
    FieldAccess,
    NameUse,
    Node,
    SizeOf,
    Subscript,
)
from gpuemu_lsp.engine.hostcode.walk import names_in, walk, written
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.model import TensorArg, TextureSpec
from gpuemu_lsp.engine.project.expressions import Expression, parse
from gpuemu_lsp.engine.source.model import Param

_OBJECTS: Final = frozenset({"cudaTextureObject_t", "cudaSurfaceObject_t", "CUtexObject", "CUsurfObject"})
"""Types of bindless textures and surfaces (CUDA C++ programming guide, 3.2.14). In C they are integers."""
_AXES: Final = {"1D": 1, "2D": 2, "3D": 3, "Cubemap": 3}
_MODES: Final = {
    "cudaAddressModeWrap": 0,
    "cudaAddressModeClamp": 1,
    "cudaAddressModeMirror": 2,
    "cudaAddressModeBorder": 3,
}
_ASSUMED_EXTENT: Final = 16
_LAYERS: Final = 6
"""Layers of layered textures, and sides of a cubemap."""


def is_object(param: Param) -> bool:
    """Return whether a parameter is a texture or surface object."""
    return not param.pointer and not _OBJECTS.isdisjoint(param.type.replace("::", " ").split())


def object_argument(context: KernelContext, param: Param, extents: Sequence[Expression]) -> TensorArg:
    """Return the argument of an object whose memory has these extents, the contiguous one first."""
    surface = "urf" in param.type
    axes, layered, element = _surface(context, param) if surface else _texture(context, param)
    sampling = TextureSpec() if surface else _sampling(context)
    floats = "float" in element.dtype
    if floats and sampling.as_float:
        element = _stored(context, element)
    # Integers that are read as they are have no filter.
    sampling = replace(sampling, linear=sampling.linear and floats, as_float="float" not in element.dtype and floats)
    sizes = [*extents[:axes], *(parse(_ASSUMED_EXTENT),) * (axes - len(extents))]
    if layered:
        sizes = [*sizes, *(parse(1),) * (2 - axes), parse(_LAYERS)]
    channels = {1: 1, 2: 2}.get(element.lanes, 4)
    shape = (*reversed(sizes), parse(channels))
    bounds = (parse(0), parse(256)) if "float" not in element.dtype else None
    direction = "inout" if surface else "in"
    return TensorArg(param.name, param.name, direction, element.dtype, shape, bounds, texture=sampling)


def _texture(context: KernelContext, param: Param) -> tuple[int, bool, ElementType]:
    """Return the number of axes of a texture, whether it has layers, and what the kernel reads from it."""
    calls = [call for call in _calls(context, "tex", param) if call.form.arguments]
    if not calls:
        return 2, False, ElementType("float32")
    form = calls[0].form
    element = element_type((form.arguments or ("",))[0], context.type_aliases) or ElementType("float32", 4)
    cube = calls[0].axes == "Cubemap"
    return 2 if cube else _AXES[calls[0].axes], cube or "Layered" in form.base, element


def _surface(context: KernelContext, param: Param) -> tuple[int, bool, ElementType]:
    calls = _calls(context, "surf", param)
    if not calls:
        return 2, False, ElementType("float32")
    sizes = (node for call in calls for each in call.arguments for node in walk(each) if isinstance(node, SizeOf))
    named = [call.form.arguments[0] for call in calls if call.form.arguments]
    named += [size.type or (written(size.value) if size.value is not None else "") for size in sizes]
    known = [element for name in named if (element := element_type(name, context.type_aliases)) is not None]
    widest = max(known, key=lambda element: element.lanes, default=ElementType("float32"))
    return _AXES[calls[0].axes], "Layered" in calls[0].form.base, widest


@dataclass(frozen=True, slots=True)
class _ObjectCall:
    """A call of a function of textures or surfaces: ``tex2DLayered<float>(image, x, y, 0)`` has the axes ``2D``."""

    form: NameUse
    axes: str
    arguments: tuple[Node, ...]


def _calls(context: KernelContext, family: str, param: Param) -> list[_ObjectCall]:
    """Return the calls of ``tex`` or ``surf`` functions with a parameter of the kernel.

    Without any, those with other names, which a device function may have for it: in the kernel, then in its file.
    """
    body = context.definition.body.statements if context.definition is not None else None
    own = list(_calls_in((body,) if body is not None else (), family))
    mine = [call for call in own if any(param.name in names_in(each) for each in call.arguments)]
    return mine or own or list(_calls_in(context.program.device_code(), family))


def _calls_in(code: Iterable[Node], family: str) -> Iterator[_ObjectCall]:
    for node in (inner for each in code for inner in walk(each)):
        if isinstance(node, CallExpression) and isinstance(node.callee, NameUse):
            base = node.callee.base
            axes = next((axes for axes in _AXES if base.startswith(f"{family}{axes}")), None)
            if axes is not None:
                yield _ObjectCall(node.callee, axes, node.arguments)


def _host_code(context: KernelContext) -> Iterator[Node]:
    """Yield all code of the host."""
    for function in context.program.all_functions():
        if function.body.statements is not None:
            yield from walk(function.body.statements)


def _assigned(context: KernelContext, member: str, index: int | None = None) -> str:
    """Return the value that all assignments to a member in the file have, empty if they differ or there are none."""
    values = set()
    for node in _host_code(context):
        if isinstance(node, Assign) and not node.operator:
            place = node.target
            if isinstance(place, Subscript) and (index is None or place.index == Constant(index)):
                place = place.base
            if isinstance(place, FieldAccess) and place.name == member:
                values.add(written(node.value))
    return values.pop() if len(values) == 1 else ""


def _sampling(context: KernelContext) -> TextureSpec:
    modes = [_MODES.get(_assigned(context, "addressMode", axis), 1) for axis in range(3)]
    return TextureSpec(
        (modes[0], modes[1], modes[2]),
        linear=_assigned(context, "filterMode") == "cudaFilterModeLinear",
        normalised=_assigned(context, "normalizedCoords") in ("1", "True"),
        as_float=_assigned(context, "readMode") == "cudaReadModeNormalizedFloat",
    )


def _stored(context: KernelContext, read: ElementType) -> ElementType:
    """Return what is stored in a texture that is read as normalised floats: bytes, unless the file says otherwise."""
    described = {
        element_type(node.arguments[0], context.type_aliases)
        for node in _host_code(context)
        if isinstance(node, NameUse) and node.base == "cudaCreateChannelDesc" and node.arguments
    }
    known = [one for one in described if one is not None and one.dtype in ("uint8", "int8", "uint16", "int16")]
    return known[0] if len(known) == 1 else ElementType("uint8", read.lanes)
