"""Tensor descriptors that a program makes: ``TensorDescriptor`` objects, which Triton's driver turns into tensor maps.

Triton's own launcher calls :func:`fill_tma_descriptor_tiled` of the driver; the kernel gets the 128 bytes by value.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.tensor_map import ELEMENT_TYPES, TensorMap, encode, tensor_map_problem

TENSOR_MAP = "nvTmaDesc"
"""Triton's name of the type of such a parameter."""


@dataclass(frozen=True, slots=True)
class HostTensorMap:
    """A tensor map, and the address of its tensor in this process; the record has address 0."""

    record: bytes
    address: int


def fill_tma_descriptor_tiled(
    address: int,
    swizzle: int,
    element_size: int,
    element_type: int,
    block: Sequence[int],
    shape: Sequence[int],
    strides: Sequence[int],
    padding: int,
) -> HostTensorMap:
    """Return the map of a tensor, as Triton's driver makes it (``third_party/nvidia/backend/driver.c``).

    ``element_type`` is a number of ``CUtensorMapDataType``; extents and strides have the contiguous dimension last,
    strides are in elements. ``padding`` is 1 where elements outside of the tensor are NaN.

    Raises
    ------
    RuntimeError
        If ``cuTensorMapEncodeTiled`` would refuse the map.
    """
    kind = element_type + 1
    problem = None if kind < len(ELEMENT_TYPES) else "elements of 4 bits are not supported"
    if problem is None and address % 16:
        problem = "the address of the tensor is not a multiple of 16"
    made = TensorMap(
        0,
        tuple(reversed(shape)),
        tuple(element_size * stride for stride in reversed(strides[:-1])),
        tuple(reversed(block)),
        element_size,
        swizzle,
        ELEMENT_TYPES[kind] if problem is None else "",
        nan_fill=bool(padding),
    )
    problem = problem or tensor_map_problem(made)
    if problem is not None:
        raise RuntimeError(f"Triton Error [CUDA]: invalid argument: {problem}")
    return HostTensorMap(encode(made), address)
