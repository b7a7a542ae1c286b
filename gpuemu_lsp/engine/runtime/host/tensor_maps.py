"""``cuTensorMapEncodeTiled``: our record of a tensor map, by the driver's rules (CUDA driver API, section 6.32)."""

from __future__ import annotations

from typing import Final

from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.findings import RunFindings
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.protocol.calls import TensorMapCall
from gpuemu_lsp.engine.runtime.protocol.messages import TensorMapEncoded
from gpuemu_lsp.engine.tensor_map import ELEMENT_TYPES, TensorMap, encode, tensor_map_problem

_RULE: Final = "api/tensor-map"
_CALL: Final = "cuTensorMapEncodeTiled"
_INVALID_VALUE, _NOT_SUPPORTED = 1, 801
"""Values of ``CUresult``."""
_ELEMENT_BYTES: Final = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
"""By ``CUtensorMapDataType``."""
_SWIZZLES: Final = 4


class TensorMapEncoder:
    """Encodes the tensor maps of one run."""

    def __init__(self, memory: DeviceMemory, findings: RunFindings) -> None:
        self._memory = memory
        self._findings = findings

    def encode(self, call: TensorMapCall, site: CallSite | None) -> TensorMapEncoded:
        """Return the record of a tensor map, or why there is none, with a finding."""
        unknown = _unknown(call.type, call.swizzle)
        if unknown is not None:
            text = f"{_CALL} with {unknown} is not implemented: the call fails"
            self._findings.host("api/unsupported", text, site, None)
            return TensorMapEncoded(_NOT_SUPPORTED, b"")
        tensor_map = TensorMap(
            call.address,
            call.sizes,
            call.strides,
            call.box,
            _ELEMENT_BYTES[call.type],
            call.swizzle,
            ELEMENT_TYPES[call.type + 1],
            call.steps,
            bool(call.fill),
            call.interleave,
        )
        problem: str | None = f"a tensor map has 1 to 5 dimensions, not {call.rank}"
        if len(call.sizes) == call.rank:
            problem = tensor_map_problem(tensor_map)
        if problem is None and call.address % 16:
            problem = "the address of the tensor is not a multiple of 16"
        if problem is None and not call.aligned:
            problem = "the address of the map itself is not a multiple of 64"
        if problem is not None:
            self._findings.host(_RULE, f"{_CALL} refuses the tensor map: {problem}", site, None)
            return TensorMapEncoded(_INVALID_VALUE, b"")
        self._check_extent(tensor_map, site)
        return TensorMapEncoded(0, encode(tensor_map))

    def _check_extent(self, tensor_map: TensorMap, site: CallSite | None) -> None:
        """Report a map of more than its allocation holds: its copies reach past the end."""
        allocation = self._memory.find(tensor_map.address)
        if allocation is None or not allocation.live:
            what = "memory that was freed" if allocation is not None else "an address that is not of device memory"
            self._findings.host(_RULE, f"the tensor map describes {what}", site, allocation)
            return
        last = sum((size - 1) * stride for size, stride in zip(tensor_map.sizes[1:], tensor_map.strides, strict=True))
        end = tensor_map.address - allocation.address + last + tensor_map.sizes[0] * tensor_map.element_size
        if end > allocation.size:
            shape = " x ".join(map(str, reversed(tensor_map.sizes)))
            message = f"the tensor map of {shape} elements ends at byte {end} of {allocation.name}, which has "
            self._findings.host(_RULE, f"{message}{allocation.size} bytes", site, allocation)


def _unknown(element: int, swizzle: int) -> str | None:
    """Return what our tensor maps do not have, None if they have it all."""
    if element >= len(_ELEMENT_BYTES):
        return "elements of 4 or 6 bits"
    if swizzle >= _SWIZZLES:
        return "a swizzle of larger atoms"
    return None
