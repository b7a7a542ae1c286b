"""A PTX module as typed, frozen records. Section numbers refer to NVIDIA's PTX ISA manual, version 8.x."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, TypeAlias


@dataclass(frozen=True, slots=True)
class Register:
    """A register operand: ``%r1``, ``%p2``, or a special register such as ``%tid.x`` (section 10)."""

    name: str


@dataclass(frozen=True, slots=True)
class Immediate:
    """A literal. ``bits`` is the raw pattern for ``0f``/``0d`` floats, the value itself for integers (section 4.5).

    ``kind`` is ``"int"``, ``"f32"`` or ``"f64"``.
    """

    bits: int
    kind: str


@dataclass(frozen=True, slots=True)
class Symbol:
    """The address of a variable, function or label by name, with a constant byte offset: ``smem+16``."""

    name: str
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Address:
    """A memory operand ``[base+offset]``, ``offset`` in bytes (section 6.4.1)."""

    base: Register | Symbol | Immediate
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Vector:
    """A brace list ``{%f1, %f2}``; the sink ``_`` is ``Register("_")``."""

    elements: tuple[Operand, ...]


@dataclass(frozen=True, slots=True)
class Pair:
    """Two destinations ``%r1|%p1`` as ``shfl`` and ``setp`` write them."""

    first: Register
    second: Register


@dataclass(frozen=True, slots=True)
class Negated:
    """A negated predicate operand ``!%p1``: of ``setp`` with a combining operand, ``vote``, ``bar.red``."""

    register: Register


Operand: TypeAlias = "Register | Immediate | Symbol | Address | Vector | Pair | Negated"


@dataclass(frozen=True, slots=True)
class Guard:
    """The predicate before an instruction: ``@%p1`` or ``@!%p1`` (section 9.3)."""

    register: Register
    negated: bool


@dataclass(frozen=True, slots=True)
class Location:
    """A source location from ``.loc`` (section 11.5.2): 1-based line and column, file by index.

    ``inlined_at`` is the call site into which the code was inlined, and so on outwards. ``function`` is the mangled
    name of the inlined function; None at the outermost location, which is in the PTX function itself.
    """

    file: int
    line: int
    column: int
    function: str | None = None
    inlined_at: Location | None = None

    @property
    def line_of_kernel_file(self) -> int:
        """The innermost line in the file of the kernel: code may be inlined from headers, as that of `cuda::ptx` is."""
        chain = inlining_chain(self)
        return next(one.line for one in chain if one.file == chain[-1].file)


def inlining_chain(location: Location | None) -> list[Location]:
    """Return a location and the call sites it is inlined at, innermost first."""
    # The limit guards against a module whose inlining chain is cyclic.
    chain: list[Location] = []
    while location is not None and len(chain) < 64:
        chain.append(location)
        location = location.inlined_at
    return chain


REFUSED: Final = "refused"
"""Opcode of a place that a header of ours refuses to compile for this device; its operand says what, and why."""


@dataclass(frozen=True, slots=True)
class Instruction:
    """One instruction.

    ``opcode`` is the base (``ld``), ``modifiers`` are the parts after it (``("global", "v4", "f32")``),
    ``operands`` in source order. For ``call``, operands are ``(Vector(returns), callee, Vector(arguments))`` with empty
    vectors where absent, and for an indirect call the prototype symbol as a fourth. ``text_line`` is the 0-based line
    in the PTX text. ``used_bytes`` has a bit for each loaded byte that the program uses, from
    ``.pragma "used_bytes_mask"`` before the instruction; None if there is none.
    """

    opcode: str
    modifiers: tuple[str, ...]
    operands: tuple[Operand, ...]
    guard: Guard | None = None
    location: Location | None = None
    text_line: int = 0
    used_bytes: int | None = None
    call: int = field(default=0, compare=False, repr=False)
    """Number of the inlined call that it belongs to, in a program whose calls are inlined; 0 in the kernel itself."""
    registers: tuple[tuple[str, ...], tuple[str, ...]] | None = field(
        default=None, init=False, compare=False, repr=False
    )
    """The registers that it writes and reads, kept by the emulator, whose analyses all ask for them."""

    @property
    def name(self) -> str:
        """The opcode with its modifiers: ``ld.global.v4.f32``."""
        return ".".join((self.opcode, *self.modifiers))


@dataclass(frozen=True, slots=True)
class Label:
    """A branch target."""

    name: str
    text_line: int = 0


@dataclass(frozen=True, slots=True)
class Variable:
    """A declared variable or parameter (section 5).

    ``space`` is ``global``, ``const``, ``shared``, ``local``, ``param``, or ``reg`` for a parameter of a
    device function. ``size`` is in bytes, 0 for an unsized
    ``extern .shared`` array (dynamic shared memory). ``init`` is the little-endian initial image, or None;
    ``relocations`` are (byte offset, symbol, addend) of addresses in it. ``alignment`` in bytes; 0 means natural.
    ``managed``: the host accesses it too, as ``__managed__`` says.
    """

    name: str
    space: str
    type: str
    size: int
    alignment: int = 0
    init: bytes | None = None
    relocations: tuple[tuple[int, str, int], ...] = ()
    extern: bool = False
    is_array: bool = False
    managed: bool = False


@dataclass(frozen=True, slots=True)
class Function:
    """An ``.entry`` (kernel) or ``.func``.

    ``registers`` maps every declared register to its type (``%r1`` -> ``b32``); registers of inner ``{ }`` scopes get a
    unique name. ``variables`` are the shared and local variables declared inside. ``directives`` has ``maxntid``,
    ``reqntid``, ``minnctapersm`` and their numbers. ``body`` is None for a declaration.
    """

    name: str
    is_entry: bool
    params: tuple[Variable, ...]
    returns: tuple[Variable, ...]
    registers: Mapping[str, str]
    variables: tuple[Variable, ...]
    body: tuple[Instruction | Label, ...] | None
    directives: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    branch_targets: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """``.branchtargets`` tables by label, for ``brx.idx``."""
    prototypes: Mapping[str, tuple[tuple[Variable, ...], tuple[Variable, ...]]] = field(default_factory=dict)
    """``.callprototype`` labels: (returns, params), for indirect calls."""
    text_lines: tuple[int, int] = (0, 0)
    """First and last 0-based line of its definition in the PTX text."""


@dataclass(frozen=True, slots=True)
class Module:
    """A PTX module. An ``.alias`` is a second key in ``functions`` for the same function."""

    version: str
    target: str
    address_size: int
    files: Mapping[int, str]
    variables: tuple[Variable, ...]
    functions: Mapping[str, Function]
    text: str = field(repr=False, default="")
