"""Messages of memory events, in array elements where the accessed bytes are one.

The terms are those of Compute Sanitizer (memcheck, initcheck). Messages contain no addresses, so that two runs report
the same text.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.ir.opcodes import VECTOR_LENGTHS, type_bytes
from gpuemu_lsp.engine.emulator.launch.device_memory.region import Region
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction

_SCALAR = re.compile(r"[busf](8|16|32|64|128)")
_ELEMENTS = re.compile(r"[A-Za-z_]\w*(?:[.\[]\w+\]?)*")
"""Names that can be indexed: identifiers, and members of a struct argument such as ``p.x``."""
_NO_WAIT = "no `cp.async.wait_group` that covers its group is in between"

WILD = 1 << 36
"""Bytes from a region at which an address does not come from an index of 32 bits into it."""
_COPIED = 2
"""The operand of ``cp.async`` that says how many bytes it copies."""
_TYPED = re.compile(r"[suf](8|16|32|64)")
"""PTX types that show the element type of an array. Untyped bits, such as ``b32``, may hold two halves."""


@dataclass(frozen=True, slots=True)
class AccessedBytes:
    """Bytes of one access, relative to the region they are in or next to.

    ``name`` is that of the variable or buffer, None without a region. ``offset``, ``size``, ``region_size`` and
    ``element_size`` are in bytes; ``element_size`` 0 means unknown. ``inferred`` says that it is the access that shows
    the element size: the declared type may be another one. ``start`` is the offset of the address that the kernel got,
    from which elements are counted.
    """

    name: str | None
    offset: int | None
    size: int
    region_size: int = 0
    element_size: int = 0
    inferred: bool = False
    start: int = 0

    @property
    def place(self) -> str:
        """The accessed element, or the first accessed byte: ``x[2]``, ``s[127] at byte 508`` or ``byte 10 of x``.

        A variable that is accessed as a whole is not an array: ``count``.
        """
        if self.name is None or self.offset is None:
            return "an address in no buffer"
        if not self._in_elements:
            return f"byte {self.offset - self.start} of {self.name}"
        if self.inferred and self.offset == 0 and self.region_size == self.element_size:
            return self.name
        element = f"{self.name}[{(self.offset - self.start) // self.element_size}]"
        return f"{element} at byte {self.offset}" if self.inferred else element

    @property
    def subject(self) -> str:
        """The place, preceded by the number of bytes unless they are one element."""
        if self._in_elements and self.size == self.element_size:
            return self.place
        return f"{_count(self.size, 'byte')} at {self.place}"

    @property
    def extent(self) -> str:
        """The size of the region, after the name: ``x has 3 elements``."""
        if not self.start:
            return f"{self.name} has {self._size}"
        elements = self._in_elements and self.start % self.element_size == 0
        first = f"element {self.start // self.element_size}" if elements else f"byte {self.start}"
        return f"{self.name} points to {first} of {self._size}"

    @property
    def which(self) -> str:
        """The size of the region as a clause after the name."""
        return f": {self.extent}" if self.start else f", which has {self._size}"

    @property
    def _size(self) -> str:
        if self._in_elements and self.region_size % self.element_size == 0:
            return _count(self.region_size // self.element_size, "element")
        return _count(self.region_size, "byte")

    @property
    def _in_elements(self) -> bool:
        # Shared memory without variables has a description for a name, which cannot be indexed.
        return bool(
            self.name is not None
            and _ELEMENTS.fullmatch(self.name)
            and self.offset is not None
            and self.element_size
            and (self.offset - self.start) % self.element_size == 0
        )


def accessed_bytes(
    instruction: Instruction, region: Region | None, name: str | None, offset: int | None, size: int, start: int = 0
) -> AccessedBytes:
    """Describe an access of ``size`` bytes at ``offset`` of a region; the kernel's pointer is to its byte ``start``."""
    if region is None or name is None or offset is None:
        return AccessedBytes(None, None, size)
    if region.kind == "buffer":
        return AccessedBytes(name, offset, size, region.size, region.element_size, start=start)
    return AccessedBytes(name, offset, size, region.size, _scalar_bytes(instruction), inferred=True)


def _scalar_bytes(instruction: Instruction) -> int:
    """Return the size of the array elements that an instruction accesses, 0 if its type does not show it."""
    # A vector access may be one element of a float4 array or four of a float array.
    if VECTOR_LENGTHS.keys() & set(instruction.modifiers):
        return 0
    kind = instruction.modifiers[-1] if instruction.modifiers else ""
    return type_bytes(kind) if _TYPED.fullmatch(kind) else 0


def null_pointer(verb: str, access: AccessedBytes) -> str:
    """Return the message of an access through a null pointer; ``verb`` is ``read`` or ``write``, here and below."""
    return f"{verb} of {_count(access.size, 'byte')} through a null pointer"


def misaligned(verb: str, access: AccessedBytes, instruction: Instruction) -> str:
    """Return the message of an access at an address that is not a multiple of its size."""
    # The event has the size of one element, but the whole vector, or all that ``cp.async`` copies, must be aligned (PTX
    # ISA, "ld" and "cp.async").
    kind = instruction.modifiers[-1] if instruction.modifiers else ""
    lanes = next((VECTOR_LENGTHS[one] for one in instruction.modifiers if one in VECTOR_LENGTHS), 1)
    size = lanes * type_bytes(kind) if _SCALAR.fullmatch(kind) else access.size
    if instruction.opcode == "cp" and "bulk" not in instruction.modifiers:
        copied = instruction.operands[_COPIED]
        size = copied.bits if isinstance(copied, Immediate) else size
    return f"misaligned {verb} of {_count(size, 'byte')} at {access.place}: the address is not {size}-byte aligned"


def uninitialised(access: AccessedBytes) -> str:
    """Return the message of a read of bytes that were never written."""
    return f"uninitialized read of {access.subject}"


def in_flight(access: AccessedBytes) -> str:
    """Return the message of a read of bytes that an asynchronous copy is still writing."""
    return f"{uninitialised(access)}: the asynchronous copy that writes it has not been waited for"


def copy_overtaken(access: AccessedBytes, *, by_copy: bool) -> str:
    """Return the message of an asynchronous copy whose target its thread writes once more before the wait."""
    if by_copy:
        return f"this copy writes {access.place} while an earlier one of its thread may still write it: {_NO_WAIT}"
    return f"{access.place} is stored to while this copy may still write it: {_NO_WAIT}"


def read_only(access: AccessedBytes) -> str:
    """Return the message of a write to constant memory."""
    return f"write to {access.subject}, which is in constant memory"


def in_padding(verb: str, access: AccessedBytes) -> str:
    """Return the message of an access to what is between the elements of a tensor that is not contiguous."""
    return f"{verb} of {access.subject}, which is in the padding between the elements of {access.name}"


def out_of_bounds(verb: str, access: AccessedBytes) -> str:
    """Return the message of an access outside its region, or across the end of it."""
    if access.name is None or access.offset is None or abs(access.offset) > WILD:
        return f"{verb} of {_count(access.size, 'byte')} is out of bounds: the address is in no buffer"
    if 0 <= access.offset < access.region_size:
        return f"{verb} of {access.subject} extends past the end of {access.name}{access.which}"
    return f"{verb} of {access.subject} is out of bounds: {access.extent}"


def absent_block(verb: str, access: AccessedBytes, *, exited: bool) -> str:
    """Return the message of an access to the shared memory of a block of the cluster that is not there."""
    state = "has exited" if exited else "has not started"
    text = f"{verb} of {access.subject} of another block of the cluster, which {state}: "
    return f"{text}no `barrier.cluster` orders {'its end after' if exited else 'its start before'} this access"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"


def demangled(name: str) -> str:
    """Return the identifier in the mangled name of a function-scope variable: ``As`` for ``_ZZ2mmE2As``."""
    if not name.startswith("_Z"):
        return name
    # A local name ends in the variable's: `E`, its length, and a discriminator where there are several (5.1.2).
    for found in re.finditer(r"(?<=E)(\d+)(?=[A-Za-z_])", name):
        variable, rest = name[found.end() :][: int(found[1])], name[found.end() + int(found[1]) :]
        if len(variable) == int(found[1]) and re.fullmatch(r"(?:_\d|__\d+_)?", rest):
            return variable
    # Other identifiers are preceded by their length too; numbers of template arguments (`Li16E`) are none.
    name = re.sub(r"L[a-z]n?\d+E", "", name)
    best = name
    index = 0
    while index < len(name):
        if not name[index].isdigit():
            index += 1
            continue
        start = index
        while index < len(name) and name[index].isdigit():
            index += 1
        length = int(name[start:index])
        if 0 < length <= len(name) - index:
            best = name[index : index + length]
            index += length
    return best
