"""Parameter blocks of recorded launches, read by the signature of their kernel."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from gpuemu_lsp.engine.element_types import INTEGERS, ElementType, dtype_size, element_type
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.model import StructMember
from gpuemu_lsp.engine.plan.struct_layout import LayoutError, Leaf, StructLayout, struct_layout
from gpuemu_lsp.engine.recordings.model import RecordedKernel, RecordedLaunch, RecordedParameter
from gpuemu_lsp.engine.source.model import Param

_RAW = ElementType("uint8")
_ADDRESS = ElementType("uint64")
_WORD = 8


class MisfitError(Exception):
    """Recorded launches do not fit a kernel as it is now; the message is a clause that says why."""


@dataclass(frozen=True, slots=True)
class ArgumentPlace:
    """An argument and its place in the parameter block.

    ``element`` is the type of a scalar, or of what a pointer points to; raw bytes if that is not a number. ``pointer``:
    the launches pass the address of an allocation.
    """

    name: str
    offset: int
    element: ElementType
    pointer: bool
    const: bool = False
    member: StructMember | None = None
    raw: bool = False
    """What the pointer points to has no dtype: its bytes are never changed."""

    @property
    def size(self) -> int:
        """Size in the parameter block, in bytes."""
        return _WORD if self.pointer else dtype_size(self.element.dtype)


@dataclass(slots=True)
class ArgumentReader:
    """Finds the arguments of a kernel's launches, which all pass pointers at the same places.

    Raises
    ------
    MisfitError
        If the signature has changed since the launches were recorded.
    """

    context: KernelContext
    kernel: RecordedKernel
    launches: tuple[RecordedLaunch, ...]
    _pointers: frozenset[int] = frozenset()

    def places(self) -> list[ArgumentPlace]:
        """Return the arguments in the order of the signature."""
        params = self.context.declaration.params
        if len(params) != len(self.kernel.parameters):
            raise MisfitError(f"it has {len(params)} parameters, and had {len(self.kernel.parameters)}")
        self._pointers = frozenset(one.offset for one in self.launches[0].pointers)
        found: list[ArgumentPlace] = []
        for number, (param, recorded) in enumerate(zip(params, self.kernel.parameters, strict=True)):
            found += self._parameter(param, recorded, param.name or f"parameter {number + 1}")
        return found

    def _parameter(self, param: Param, recorded: RecordedParameter, name: str) -> list[ArgumentPlace]:
        element = element_type(param.type, self.context.type_aliases)
        if param.pointer:
            if recorded.size != _WORD:
                raise MisfitError(f"'{name}' is a pointer now")
            deep = param.pointer_depth > 1
            return [self._pointer(name, recorded.offset, None if deep else element, param.const, deep)]
        if element is not None and element.lanes == 1:
            if recorded.size != dtype_size(element.dtype):
                raise MisfitError(f"'{name}' has {dtype_size(element.dtype)} bytes now, and had {recorded.size}")
            return [ArgumentPlace(name, recorded.offset, element, False)]
        try:
            layout = struct_layout(param.type, self.context.source, self.context.type_aliases)
        except LayoutError:
            layout = None
        if layout is not None and layout.size != recorded.size:
            raise MisfitError(f"'{name}' has {layout.size} bytes now, and had {recorded.size}")
        return self._members(name, recorded, layout)

    def _members(self, name: str, recorded: RecordedParameter, layout: StructLayout | None) -> list[ArgumentPlace]:
        """Return the members of a struct; its words or bytes if its definition is not known."""
        leaves: list[Leaf] = list(layout.leaves) if layout is not None else []
        if layout is None:
            whole = recorded.size // _WORD * _WORD
            leaves = [Leaf(f"word{at // _WORD}", at, "", _ADDRESS) for at in range(0, whole, _WORD)]
            leaves += [Leaf(f"byte{at}", at, "", _RAW) for at in range(whole, recorded.size)]
        found = []
        for leaf in leaves:
            member = StructMember(name, leaf.offset, recorded.size)
            full, offset = f"{name}.{leaf.path}", recorded.offset + leaf.offset
            if leaf.pointer_depth > 0:
                deep = leaf.pointer_depth > 1
                place = self._pointer(full, offset, None if deep else leaf.element, leaf.const, deep)
            elif layout is None and offset in self._pointers:
                place = self._pointer(full, offset, None, False, False)
            elif leaf.element is None or leaf.element.lanes != 1:
                raise MisfitError(f"the type of '{full}' is not known")
            else:
                place = ArgumentPlace(full, offset, leaf.element, False)
            found.append(
                ArgumentPlace(place.name, place.offset, place.element, place.pointer, place.const, member, place.raw)
            )
        return found

    def _pointer(self, name: str, offset: int, element: ElementType | None, const: bool, deep: bool) -> ArgumentPlace:
        """Return the argument of a pointer; ``deep`` is one to pointers."""
        if offset not in self._pointers:
            # Null, or an address that is not of device memory: an access through it is wrong in any case.
            return ArgumentPlace(name, offset, _ADDRESS, False)
        unknown = _ADDRESS if deep else _RAW
        return ArgumentPlace(name, offset, element or unknown, True, const, raw=element is None)


def integer_values(place: ArgumentPlace, launches: tuple[RecordedLaunch, ...]) -> list[int] | None:
    """Return the values of an integer argument, None if it is none."""
    dtype = place.element.dtype
    if place.pointer or dtype not in INTEGERS:
        return None
    signed, size = not dtype.startswith("u"), dtype_size(dtype)
    return [
        int.from_bytes(one.parameters[place.offset : place.offset + size], "little", signed=signed) for one in launches
    ]


def float_value(place: ArgumentPlace, launch: RecordedLaunch) -> float:
    """Return the value of a scalar that is not an integer. Of narrow floats it is 0: their bytes are what counts."""
    raw = launch.parameters[place.offset : place.offset + place.size]
    code = {"float32": "<f", "float64": "<d"}.get(place.element.dtype)
    return float(struct.unpack(code, raw)[0]) if code is not None else 0.0
