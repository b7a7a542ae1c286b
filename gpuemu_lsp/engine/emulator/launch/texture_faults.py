"""Events of texture and surface instructions: what is not an object, and accesses outside of a texture or a surface."""

from __future__ import annotations

import ctypes

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.emulator.abi.records import lanes_of
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.abi.texture_forms import Geometry
from gpuemu_lsp.engine.emulator.codegen.instructions.textures import FORM_SHIFT, TextureFault
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.state import Incident, LaunchReport, PreparedLaunch
from gpuemu_lsp.engine.emulator.launch.tma.maps import UNSUPPORTED
from gpuemu_lsp.engine.execution import Access
from gpuemu_lsp.engine.texture import RECORD, Texture, decode

_OUTSIDE = "memory/out-of-bounds"
_FETCH = "memory/texture-bounds"


class TextureFaults:
    """Collects the faults of one launch. Coordinates and objects are in the launch's scratch space."""

    def __init__(self, prepared: PreparedLaunch) -> None:
        self._prepared = prepared
        self._incidents: list[Incident] = []
        self.unknown_object = False
        """Whether an instruction was given no texture or surface object: the launch is not that of the program."""

    def report_to(self, report: LaunchReport) -> None:
        """Add the incidents of the launch to its report."""
        for incident in self._incidents:
            report.add(incident)

    def execute(self, context: int, site: int, mask: int, which: int) -> None:
        """Take the faults of the lanes of ``mask``; ``context`` is the address of the warp's context."""
        block = ctypes.c_int64.from_address(context + Warp.BLOCK).value
        number = ctypes.c_int64.from_address(block + BlockRecord.LINEAR).value
        instruction = self._prepared.kernel.sites[site][0]
        reads = instruction is None or instruction.opcode not in ("sust", "sured")
        access = Access.READ if reads else Access.WRITE
        first = ctypes.c_int32.from_address(context + Warp.WARP_ID).value * WARP_SIZE
        fault, form = TextureFault(which & 0xFF), which >> FORM_SHIFT
        for lane in lanes_of(mask):
            rule, message, name = self._described(fault, form, lane)
            cause = Cause.TEXTURE_OBJECT if rule == UNSUPPORTED else None
            self._incidents.append(
                Incident(rule, message, site, first + lane, number, None, name, cause=cause, access=access)
            )

    def _described(self, fault: TextureFault, form: int, lane: int) -> tuple[str, str, str | None]:
        """Return the rule, the message and the name of the memory."""
        launch, arena = self._prepared.launch, self._prepared.arena
        handle = ctypes.c_int64.from_address(launch.address + LaunchRecord.TEXTURE_HANDLES + 8 * lane).value
        known = arena.contains(handle, RECORD.itemsize)
        texture = decode(bytes(arena.data(handle, RECORD.itemsize))) if known else None
        kind = "surface" if fault is TextureFault.SURFACE else "texture"
        if texture is None:
            self.unknown_object = True
            message = f"the operand of this instruction is no {kind} object that was given for the launch"
            return UNSUPPORTED, message, None
        rows = launch.row(LaunchRecord.TEXTURE_OPERANDS)
        geometry = Geometry(form & 15)
        count = geometry.coordinates + geometry.layered
        values = [int(rows[row * WARP_SIZE + lane]) for row in range(min(count, 4))]
        name = self._memory(handle)
        if fault is TextureFault.BEYOND:
            place = ", ".join(map(str, values))
            size = _extent(texture, geometry)
            return _FETCH, f"read of texel {place} of `{name or kind}`, which has {size}: the result is 0", name
        layer, places = (values[:1], values[1:]) if geometry.layered else ([], values)
        size = _size(texture, geometry)
        return _OUTSIDE, f"access to {_surface_place(places, layer)} of `{name or kind}`, which has {size}", name

    def _memory(self, handle: int) -> str | None:
        """Return the name of the buffer behind an object of the launch's arguments."""
        regions = self._prepared.buffers
        for buffer in self._prepared.request.buffers:
            if buffer.pointers and regions[buffer.name].address == handle:
                return buffer.pointers[0][1].name
        return None


def _surface_place(places: list[int], layer: list[int]) -> str:
    parts = [f"byte {places[0]}"]
    for noun, value in zip(("row", "slice"), places[1:], strict=False):
        parts.append(f"{noun} {value}")
    parts += [f"layer {value}" for value in layer]
    return ", ".join(parts)


def _size(texture: Texture, geometry: Geometry) -> str:
    """Return the size of a surface: bytes in a row, rows, and slices or layers."""
    width, height, depth = texture.extent
    parts = [f"{width * texture.texel_bytes} bytes"]
    if geometry.coordinates > 1:
        parts[0] += " in a row"
        parts.append(f"{height} rows")
    if geometry.layered or geometry.coordinates > 2:
        parts.append(f"{depth} {'layers' if geometry.layered else 'slices'}")
    return ", ".join(parts)


def _extent(texture: Texture, geometry: Geometry) -> str:
    count = geometry.coordinates
    return f"{' x '.join(str(size) for size in texture.extent[:count])} texels"
