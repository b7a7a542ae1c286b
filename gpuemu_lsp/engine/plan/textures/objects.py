"""Texture and surface parameters of unregistered kernels: formats, sampling and extents.

The format is that of what the kernel reads, the sampling what the file assigns to a ``cudaTextureDesc`` wherever all
assignments agree, and point sampling of clamped coordinates otherwise. Extents are those of the launch, one texel for
each thread, or the sizes that the kernel is passed. They are assumptions, and nothing is claimed about them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

from gpuemu_lsp.engine.element_types import ElementType, element_type
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.model import TensorArg, TextureSpec
from gpuemu_lsp.engine.project.expressions import Expression, parse
from gpuemu_lsp.engine.source.model import Param

_OBJECT: Final = re.compile(r"\bcuda(?:Texture|Surface)Object_t\b|\bCU(?:tex|surf)Object\b")
"""Types of bindless textures and surfaces (CUDA C++ programming guide, 3.2.14). In C they are integers."""
_READ: Final = re.compile(r"\btex(1D|2D|3D|Cubemap)\w*\s*<\s*([\w:\s]+?)\s*>\s*\(\s*(\w+)\s*,")
_SURFACE: Final = re.compile(
    r"\bsurf(1D|2D|3D|Cubemap)(Layered)?(?:read|write)\w*\s*(?:<\s*([\w:\s]+?)\s*>)?\s*\(([^;]*);"
)
_SIZEOF: Final = re.compile(r"\bsizeof\s*\(\s*([\w:\s]+?)\s*\)")
_AXES: Final = {"1D": 1, "2D": 2, "3D": 3, "Cubemap": 3}
_ASSIGNED: Final = r"\b{}\s*(?:\[\s*{}\s*\])?\s*=\s*([\w:]+)"
_MODES: Final = {
    "cudaAddressModeWrap": 0,
    "cudaAddressModeClamp": 1,
    "cudaAddressModeMirror": 2,
    "cudaAddressModeBorder": 3,
}
_CHANNELS: Final = re.compile(r"\bcudaCreateChannelDesc\s*<\s*([\w\s]+?)\s*>")
_ASSUMED_EXTENT: Final = 16
_LAYERS: Final = 6
"""Layers of layered textures, and sides of a cubemap."""


def is_object(param: Param) -> bool:
    """Return whether a parameter is a texture or surface object."""
    return not param.pointer and _OBJECT.search(param.type) is not None


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
    text = context.text
    found = [one for one in _READ.finditer(text) if one[3] == param.name]
    # A device function may have its own name for the texture.
    found = found or list(_READ.finditer(text)) or list(_READ.finditer(context.source.text))
    if not found:
        return 2, False, ElementType("float32")
    element = element_type(found[0][2], context.type_aliases) or ElementType("float32", 4)
    cube = found[0][1] == "Cubemap"
    return 2 if cube else _AXES[found[0][1]], cube or "Layered" in found[0][0], element


def _surface(context: KernelContext, param: Param) -> tuple[int, bool, ElementType]:
    calls = [one for one in _SURFACE.finditer(context.text) if re.search(rf"\b{param.name}\b", one[4])]
    calls = calls or list(_SURFACE.finditer(context.text)) or list(_SURFACE.finditer(context.source.text))
    if not calls:
        return 2, False, ElementType("float32")
    named = [one[3] for one in calls if one[3]] + [size[1] for one in calls for size in _SIZEOF.finditer(one[4])]
    known = [element for name in named if (element := element_type(name, context.type_aliases)) is not None]
    widest = max(known, key=lambda element: element.lanes, default=ElementType("float32"))
    return _AXES[calls[0][1]], bool(calls[0][2]), widest


def _assigned(context: KernelContext, field: str, index: str = "") -> str:
    """Return the value that all assignments to a field in the file have, empty if they differ or there are none."""
    values = set(re.findall(_ASSIGNED.format(field, index or r"\d+"), context.source.text))
    return values.pop() if len(values) == 1 else ""


def _sampling(context: KernelContext) -> TextureSpec:
    modes = [_MODES.get(_assigned(context, "addressMode", str(axis)), 1) for axis in range(3)]
    return TextureSpec(
        (modes[0], modes[1], modes[2]),
        linear=_assigned(context, "filterMode") == "cudaFilterModeLinear",
        normalised=_assigned(context, "normalizedCoords") in ("1", "true"),
        as_float=_assigned(context, "readMode") == "cudaReadModeNormalizedFloat",
    )


def _stored(context: KernelContext, read: ElementType) -> ElementType:
    """Return what is stored in a texture that is read as normalised floats: bytes, unless the file says otherwise."""
    described = {element_type(name, context.type_aliases) for name in _CHANNELS.findall(context.source.text)}
    known = [one for one in described if one is not None and one.dtype in ("uint8", "int8", "uint16", "int16")]
    return known[0] if len(known) == 1 else ElementType("uint8", read.lanes)
