"""Arguments of a Triton launch, as those of the PTX kernel.

Triton's signature has a type for each Python parameter: ``*fp32`` for a pointer, ``i32`` for a scalar, ``constexpr``
for a value that is compiled in, ``tensordesc<...>`` for a tensor descriptor, and a tuple of types for a tuple. On
architectures without TMA a descriptor is passed as its base pointer, shape and strides, on others as a tensor map. The
kernel has two more
parameters than the signature: pointers to the global scratch and to the profiler's scratch memory of the launch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
from triton.backends.driver import expand_signature, wrap_handle_tensordesc_impl
from triton.backends.nvidia.driver import make_tensordesc_arg

from gpuemu.triton.addresses import ADDRESSES, LiveMemory, reachable_memory
from gpuemu.triton.descriptors import TENSOR_MAP, HostTensorMap
from gpuemu.triton.storage import TensorMemory, memory_of
from gpuemu_lsp.engine.execution import Argument, Buffer, Scalar, StructArgument
from gpuemu_lsp.engine.tensor_map import ADDRESS_OFFSET

_INTEGERS = {
    "i1": "b",
    "i8": "b",
    "i16": "h",
    "i32": "i",
    "i64": "q",
    "u1": "B",
    "u8": "B",
    "u16": "H",
    "u32": "I",
    "u64": "Q",
}
"""Format characters of :mod:`struct` by Triton's type."""
_FLOATS = {"fp32": "f", "f32": "f", "fp64": "d"}
NULL = bytes(8)


class UnsupportedArgumentError(TypeError):
    """An argument that the emulator cannot pass to a kernel."""


class ArgumentPacker:
    """Packs the arguments of launches of one compiled kernel."""

    def __init__(self, signature: dict[str, Any], descriptors: Any) -> None:
        self._types = tuple(signature.values())
        self._labels = _labels(tuple(map(str, signature)), self._types, descriptors)
        self._expanded = expand_signature(self._types, descriptors, TENSOR_MAP)
        # Triton's own code takes descriptors apart, so that the order of their parts follows its version.
        self._flat = wrap_handle_tensordesc_impl(lambda values: values, signature, descriptors, make_tensordesc_arg)

    def pack(self, values: Sequence[Any]) -> tuple[list[Argument], tuple[Buffer, ...]]:
        """Return the kernel's arguments, and the buffers whose addresses are in memory only.

        The data of buffers is the memory of the tensors.
        """
        # Like Triton's launcher, which does not read them, this one lets constexprs at the end be left out.
        left_out = self._types[len(values) :]
        if any(kind != "constexpr" for kind in left_out):
            raise TypeError(f"a launch with {len(values)} arguments of a kernel with {len(self._types)}")
        values = [*values[: len(self._types)], *(None for _ in left_out)]
        arguments: list[Argument] = []
        first: dict[int, str] = {}
        memory: dict[str, TensorMemory] = {}
        live = LiveMemory()
        for name, kind, value in _leaves(self._labels, self._expanded, self._flat(values)):
            if kind == "constexpr":
                continue
            if kind == TENSOR_MAP:
                arguments.append(_map_argument(name, value, live, first))
                continue
            if not kind.startswith("*") and not (kind in ("i64", "u64") and int(value) in ADDRESSES):
                arguments.append(Scalar(name, scalar_bytes(kind, value)))
                continue
            if value is None:
                arguments.append(Scalar(name, NULL))
                continue
            # An integer may be what data_ptr() has returned.
            where = memory_of(value) if kind.startswith("*") else live.memory_at(int(value))
            if where is None:
                arguments.append(Scalar(name, scalar_bytes(kind, value)))
                continue
            owner = first.setdefault(where.address, name)
            memory.setdefault(owner, where)
            arguments.append(
                Buffer(
                    name,
                    where.data,
                    element_size=where.item_size,
                    alias_of=owner if owner != name else None,
                    pointer_offset=where.offset,
                    host_address=where.address,
                )
            )
        tables, reachable = reachable_memory(memory, live)
        flagged = [
            replace(one, holds_addresses=True)
            if isinstance(one, Buffer) and (one.alias_of or one.name) in tables
            else one
            for one in arguments
        ]
        return flagged, reachable


def _map_argument(name: str, made: HostTensorMap, live: LiveMemory, first: dict[int, str]) -> Argument:
    """Return a tensor map as an argument by value; ``first`` has the buffers of the launch by address."""
    where = live.memory_at(made.address)
    if where is None:
        return Scalar(name, made.record)
    owner = first.setdefault(where.address, name)
    alias = owner if owner != name else None
    buffer = Buffer(
        name,
        where.data,
        element_size=where.item_size,
        alias_of=alias,
        pointer_offset=where.offset,
        host_address=where.address,
    )
    return StructArgument(name, made.record, ((ADDRESS_OFFSET, buffer),))


def _labels(names: Sequence[str], kinds: Sequence[Any], descriptors: Any) -> list[str]:
    """Return a name for each entry of the expanded signature."""
    labels: list[str] = []
    for name, kind in zip(names, kinds, strict=True):
        parts = expand_signature((kind,), descriptors, TENSOR_MAP)
        labels += [name] if len(parts) == 1 else [name, *(f"{name}.{index}" for index in range(1, len(parts)))]
    return labels


def _leaves(names: Sequence[str], kinds: Sequence[Any], values: Sequence[Any]) -> Iterator[tuple[str, str, Any]]:
    for name, kind, value in zip(names, kinds, values, strict=True):
        if isinstance(kind, tuple):
            yield from _leaves([f"{name}[{index}]" for index in range(len(kind))], kind, value)
        else:
            yield name, kind, value


def scalar_bytes(kind: str, value: Any) -> bytes:
    """Return a scalar of one of Triton's types as little-endian bytes."""
    if kind in _INTEGERS:
        return struct.pack(f"<{_INTEGERS[kind]}", int(value))
    if kind in _FLOATS:
        return struct.pack(f"<{_FLOATS[kind]}", value)
    if kind in ("fp16", "bf16"):
        # Unlike struct, NumPy rounds a number that is too large to infinity, as Triton's launcher does.
        return np.asarray(value).astype(np.float16 if kind == "fp16" else ml_dtypes.bfloat16).tobytes()
    raise UnsupportedArgumentError(f"an argument of type {kind}")
