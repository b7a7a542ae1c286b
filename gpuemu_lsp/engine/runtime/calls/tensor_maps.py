"""``cuTensorMapEncodeTiled``: our record of a tensor map, by the driver's rules (CUDA driver API, section 6.32)."""

from __future__ import annotations

from typing import Final

from gpuemu_lsp.engine.runtime.call_sites import CallSite, call_site
from gpuemu_lsp.engine.runtime.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.findings import RunFindings
from gpuemu_lsp.engine.runtime.messages import Message
from gpuemu_lsp.engine.tensor_map import ELEMENT_TYPES, TensorMap, encode, tensor_map_problem

_RULE: Final = "api/tensor-map"
_CALL: Final = "cuTensorMapEncodeTiled"
_INVALID_VALUE, _NOT_SUPPORTED = 1, 801
"""Values of ``CUresult``."""
_ELEMENT_BYTES: Final = (1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4)
"""By ``CUtensorMapDataType``."""
_SWIZZLES: Final = 4
_WORD: Final = 8


class EncodedMaps:
    """The answers to ``cuTensorMapEncodeTiled``."""

    def __init__(self, memory: DeviceMemory, findings: RunFindings) -> None:
        self._memory = memory
        self._findings = findings

    def answer(self, message: Message) -> list[int]:
        """Return a status, and the record as sixteen words if it is 0."""
        kind, rank, address, interleave, swizzle, fill, aligned = (message.word() for _ in range(7))
        sizes, strides, box, steps = (self._words(message) for _ in range(4))
        site = call_site(message.call_stack())
        unknown = _unknown(kind, swizzle)
        if unknown is not None:
            text = f"{_CALL} with {unknown} is not implemented: the call fails"
            self._findings.host("api/unsupported", text, site, None)
            return [_NOT_SUPPORTED]
        made = TensorMap(
            address,
            sizes,
            strides,
            box,
            _ELEMENT_BYTES[kind],
            swizzle,
            ELEMENT_TYPES[kind + 1],
            steps,
            bool(fill),
            interleave,
        )
        problem = tensor_map_problem(made) if len(sizes) == rank else f"a tensor map has 1 to 5 dimensions, not {rank}"
        if problem is None and address % 16:
            problem = "the address of the tensor is not a multiple of 16"
        if problem is None and not aligned:
            problem = "the address of the map itself is not a multiple of 64"
        if problem is not None:
            self._findings.host(_RULE, f"{_CALL} refuses the tensor map: {problem}", site, None)
            return [_INVALID_VALUE]
        self._check_extent(made, site)
        record = encode(made)
        return [0, *(int.from_bytes(record[at : at + _WORD], "little") for at in range(0, len(record), _WORD))]

    @staticmethod
    def _words(message: Message) -> tuple[int, ...]:
        data = message.data()
        return tuple(int.from_bytes(data[at : at + _WORD], "little") for at in range(0, len(data), _WORD))

    def _check_extent(self, made: TensorMap, site: CallSite | None) -> None:
        """Report a map of more than its allocation holds: its copies reach past the end."""
        allocation = self._memory.find(made.address)
        if allocation is None or not allocation.live:
            what = "memory that was freed" if allocation is not None else "an address that is not of device memory"
            self._findings.host(_RULE, f"the tensor map describes {what}", site, allocation)
            return
        last = sum((size - 1) * stride for size, stride in zip(made.sizes[1:], made.strides, strict=True))
        end = made.address - allocation.address + last + made.sizes[0] * made.element_size
        if end > allocation.size:
            shape = " x ".join(map(str, reversed(made.sizes)))
            message = f"the tensor map of {shape} elements ends at byte {end} of {allocation.name}, which has "
            self._findings.host(_RULE, f"{message}{allocation.size} bytes", site, allocation)


def _unknown(kind: int, swizzle: int) -> str | None:
    """Return what our tensor maps do not have, None if they have it all."""
    if kind >= len(_ELEMENT_BYTES):
        return "elements of 4 or 6 bits"
    if swizzle >= _SWIZZLES:
        return "a swizzle of larger atoms"
    return None
