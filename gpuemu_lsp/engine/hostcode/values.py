"""Values of host code, and the memory it allocates."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from gpuemu_lsp.engine.hostcode.ir import Expression, LambdaValue, Launch
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, Size, add, extreme, symbol

BOUND_KERNEL = "kernel with a grid"
"""Type of the record that stands for ``kernel[grid]``, which is launched where it is called."""
LAYER = "layer"
"""Type of the record that stands for a layer of ``torch.nn``, whose ``name`` is that of its class."""
LAUNCH_ARGUMENTS = "arguments of a launch"
"""Type of the record of a launch's arguments by name, of which others may be set elsewhere."""


@dataclass(frozen=True, slots=True)
class Unknown:
    """A value that the host code does not determine; ``type`` is its C type, if that is known.

    ``code`` is the expression whose value is not known.
    """

    type: str = ""
    code: Expression | None = field(default=None, compare=False)


@dataclass(frozen=True, slots=True)
class FloatValue:
    """A floating-point number, or a quotient of integers whose rounding follows. Both are None if it is unknown."""

    top: Size | None = None
    bottom: Size | None = None
    value: float | None = None
    type: str = ""
    """Its type by its name in NumPy, if that is known; a number of Python is ``float64``."""


@dataclass(frozen=True, slots=True)
class Ranged:
    """An integer between ``low`` and ``high``, half-open, that differs at every execution: ``rand() % n``."""

    low: Size
    high: Size


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address ``offset`` bytes after the begin of an allocation; the null pointer has none."""

    allocation: int | None
    offset: Size
    element: int | None = None
    """Bytes of an element, where the type of the pointer is known."""
    type: str = ""
    """C type of an element, if known."""


@dataclass(frozen=True, slots=True)
class Lvalue:
    """An lvalue, of which the address was taken: a variable and the fields in it."""

    cell: int
    path: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RecordValue:
    """A struct, a ``dim3``, or an array of values that are not numbers, by field or ``[index]``."""

    type: str
    fields: Mapping[str, Value] = field(default_factory=dict)
    template: tuple[str, ...] = ()
    """Template arguments of a class of the program."""


@dataclass(frozen=True, slots=True)
class HostFunctionName:
    """The name of a function, with template arguments. ``called``: a kernel that is launched by calling it."""

    name: str
    arguments: tuple[str, ...] = ()
    called: bool = False


@dataclass(frozen=True, slots=True)
class StringValue:
    """A string literal."""

    text: str


@dataclass(frozen=True, slots=True)
class Choice:
    """One of several functions, or tables of them, each with the conditions under which it is this one."""

    options: tuple[tuple[Value, tuple[Condition, ...]], ...]


@dataclass(frozen=True, slots=True)
class Closure:
    """A lambda expression; ``scopes`` are those in which it was written, and ``line`` is that of its item."""

    code: LambdaValue
    scopes: tuple[dict[str, int | str], ...]
    line: int = 0


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor or array: the symbol of each size that the program reads, by dimension.

    ``sizes`` is None while the program has not said the rank. ``strides``, and the ``offset`` of its first element,
    are in elements; a contiguous tensor has no ``strides``.
    """

    name: str
    allocation: int
    sizes: tuple[Size, ...] | None = None
    strides: tuple[Size, ...] | None = None
    offset: Size = ZERO

    @property
    def is_whole(self) -> bool:
        """Whether its elements are those of its allocation, in that order."""
        return self.strides is None and self.offset == ZERO


@dataclass(frozen=True, slots=True)
class Undetermined:
    """A parameter without a type, whose argument is not known: a number, a tensor, a flag or a text, by its use."""

    tensor: Tensor
    """What it is where it is used as a tensor."""

    @property
    def number(self) -> Size:
        """What it is where it is used as a number."""
        return symbol(self.tensor.name, 1)


@dataclass(frozen=True, slots=True)
class DataType:
    """A type of elements by its name in NumPy, empty for that of the tensors of callers; ``module`` defines it."""

    name: str
    module: str = "torch"


Value: TypeAlias = (
    "Unknown | FloatValue | Ranged | Condition | Size | Pointer | Lvalue | RecordValue | HostFunctionName | Choice"
    " | StringValue | Closure | Tensor | Undetermined | DataType"
)


@dataclass(frozen=True, slots=True)
class Contents:
    """What an allocation holds: ``none`` (never written), ``some`` (only part of it), or ``any``.

    ``low`` and ``high`` bound its integers, half-open; both are None where the bounds are not known. ``drawn``: each
    element may be any of them, as ``rand() % n`` is; otherwise elements may depend on their index, or on each other.
    """

    kind: str = "none"
    low: Size | None = None
    high: Size | None = None
    drawn: bool = False
    begin: Size | None = None
    """For ``some``: the bytes from the begin of the allocation that are written, where no others are."""
    byte: int | None = None
    """The value of each byte after ``memset``; of some bytes, where there are bounds, which those of others have."""

    @property
    def shown(self) -> bool:
        """Whether each element may have each value of the range."""
        return self.low is not None and self.high is not None and (self.drawn or add(self.high, self.low, -1) == ONE)


def mixed(before: Contents, written: Contents) -> Contents:
    """Return the contents of memory of which a part that is not known is written."""
    low, high = written.low, written.high
    if low is None or high is None or written.byte is not None:
        return Contents("any")
    if before.low is not None and before.high is not None:
        low, high = extreme("min", before.low, low), extreme("max", before.high, high)
    elif before.byte is None:
        return Contents("any")
    return Contents("any", low, high, byte=before.byte)


@dataclass(frozen=True, slots=True)
class Allocation:
    """Memory; ``size`` in bytes, None if it is not known. ``known`` is False for memory of which a caller decides."""

    name: str
    size: Size | None
    space: str
    contents: Contents = Contents()
    kernels: int = 0
    """Launches that may have written to it."""
    shared: bool = False
    """It was passed to a function that is not known."""
    elements: Size | None = None
    """Elements of a tensor, whose element type the program need not say."""
    sizes: tuple[Size, ...] | None = None
    """The sizes of a tensor, where the program lists them."""
    dtype: str = ""
    """Type of its elements by its name in NumPy, if that is known."""
    exact: bool = True
    """The program says the sizes: they are not assumed."""

    @property
    def extent(self) -> Size | None:
        """The bytes, or the elements of a tensor."""
        return self.size if self.size is not None else self.elements


@dataclass(frozen=True, slots=True)
class HostLaunch:
    """One launch as a path through the host code reaches it.

    ``arguments`` are values, ``memory`` the allocations at that time. ``conditions`` hold on the path.
    """

    kernel: str
    template: tuple[str, ...]
    grid: tuple[Size | None, ...]
    block: tuple[Size | None, ...]
    shared: Size | None
    arguments: tuple[Value, ...]
    memory: Mapping[int, Allocation]
    conditions: tuple[Condition, ...]
    path: str
    line: int
    number: int
    function: str
    recursive: bool = False
    """Whether a function that called itself reached it."""
    selected: tuple[Condition, ...] = ()
    """Conditions under which the program selects this kernel, by an index into a table of them for example."""
    passed: tuple[str, ...] = ()
    """The variable that each argument is, empty for other expressions."""
    parts: frozenset[int] = frozenset()
    """Positions of arguments of which another iteration of a loop passes another part."""
    keywords: Mapping[str, Value] = field(default_factory=dict)
    """Arguments by the name of the parameter; ``**`` stands for others that are not known."""
    code: Launch | None = None
    """The launch as it is written, where that is one expression."""


def with_field(value: Value, path: tuple[str, ...], inner: Value) -> Value:
    """Return an object of which the field at a path has another value."""
    if not path:
        return inner
    record = value if isinstance(value, RecordValue) else RecordValue("")
    before = record.fields.get(path[0], Unknown())
    return replace(record, fields={**record.fields, path[0]: with_field(before, path[1:], inner)})


def is_null(value: Value) -> bool:
    """Return whether a value is the null pointer, or Python's None."""
    return isinstance(value, Pointer) and value.allocation is None


def bounds(value: Value) -> tuple[Size | None, Size | None]:
    """Return the half-open bounds of an integer."""
    if isinstance(value, Size):
        return value, add(value, ONE)
    if isinstance(value, Ranged):
        return value.low, value.high
    return None, None


def pointee(value: Value) -> str:
    """Return the element type of a pointer, or of a pointer variable without a value."""
    if isinstance(value, Pointer):
        return value.type
    return value.type[:-1] if isinstance(value, Unknown) and value.type.endswith("*") else ""
