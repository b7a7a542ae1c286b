"""State of the interpretation of host code.

A :class:`State` is immutable: the values of variables, the memory, and the conditions that hold on the path. Both sides
of a branch begin with the state before it, and share all that they do not change. An :class:`Execution` has the current
one, and what is not part of a path: the launches reached so far, the symbols, and where the interpretation is.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.hostcode.arithmetic import truncated
from gpuemu_lsp.engine.hostcode.assumptions import HostAssumptions
from gpuemu_lsp.engine.hostcode.ir import Expression, Loop, RangeLoop
from gpuemu_lsp.engine.hostcode.persistent import PersistentMap
from gpuemu_lsp.engine.hostcode.program import HostFunction, HostProgram
from gpuemu_lsp.engine.hostcode.values import (
    Allocation,
    Contents,
    FloatValue,
    HostLaunch,
    Lvalue,
    Pointer,
    Ranged,
    RecordValue,
    Tensor,
    Undetermined,
    Unknown,
    Value,
    bounds,
    with_field,
)
from gpuemu_lsp.engine.hostcode.walk import is_number
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import ZERO, Size, extreme, number, symbol

MAX_STEPS = 30_000
"""Statements and expressions of one interpretation."""
_SCALED, _SCALED_LAST = 1025, 257
"""Smallest constants that may be scaled down: at first, and if that is not enough."""
_RESERVED = frozenset({"min", "max", "ceil_div", "next_pow2", "select"})


class LimitError(Exception):
    """The interpretation takes too long."""


@dataclass(frozen=True, slots=True)
class State:
    """Variables, memory and conditions of one path."""

    cells: PersistentMap[int, Value] = field(default_factory=PersistentMap)
    heap: PersistentMap[int, Allocation] = field(default_factory=PersistentMap)
    conditions: tuple[Condition, ...] = ()

    def assume(self, condition: Condition) -> State | None:
        """Return the state in which a condition holds; None if it does not hold on this path."""
        if condition.value is False:
            return None
        return replace(self, conditions=(*self.conditions, condition))

    def with_cell(self, cell: int, value: Value) -> State:
        """Return the state in which a variable has a value."""
        return State(self.cells.set(cell, value), self.heap, self.conditions)

    def with_memory(self, allocation: int, memory: Allocation) -> State:
        """Return the state in which an allocation is another one."""
        return State(self.cells, self.heap.set(allocation, memory), self.conditions)

    def with_allocations_of(self, other: State) -> State:
        """Return the state with the memory that another path has allocated: it may be what that path returns."""
        missing = {key: other.heap[key] for key in self.heap.differing(other.heap) if key not in self.heap}
        return State(self.cells, self.heap.updated(missing), self.conditions) if missing else self


@dataclass(frozen=True, slots=True)
class HostSymbol:
    """An integer that the program does not determine.

    ``origin`` is ``input`` (the user of the program chooses it), ``parameter`` (an argument of callers that are not
    known), ``constant`` (a constant of the program that may be smaller) or ``computed`` (it may depend on others in a
    way that is not known). ``values`` are those that the program gives it.
    """

    name: str
    origin: str
    values: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class HostCopy:
    """A copy of ``size`` bytes of an allocation, after some launches; ``target`` is the allocation of the host."""

    source: int
    size: Size | None
    launches: int
    target: int | None = None


@dataclass(slots=True)
class HostRun:
    """What one interpretation reaches: launches, symbols, and copies to the host or to a caller."""

    launches: list[HostLaunch] = field(default_factory=list)
    symbols: dict[str, HostSymbol] = field(default_factory=dict)
    reads: list[HostCopy] = field(default_factory=list)
    """Copies to the host, or to a caller."""
    loaded: dict[int, set[Size | None]] = field(default_factory=dict)
    """By array of the host, the bytes from its begin that each loop over it reads; None where that is not known."""
    numels: dict[str, str] = field(default_factory=dict)
    """Tensors by the symbol of their number of elements."""
    tensors: dict[int, str] = field(default_factory=dict)
    """Tensors that callers pass, by allocation."""
    sides: dict[str, tuple[int, Condition, int, int]] = field(default_factory=dict)
    """The branch that gave a symbol one of two constants, its condition, and these."""
    variables: dict[str, str] = field(default_factory=dict)
    """Variables to which the sizes of tensors were assigned first, by the symbol of the size."""
    calls: list[tuple[HostFunction, list[Value | None]]] = field(default_factory=list)
    """Calls of functions of the program, with their arguments."""
    decided: list[Condition] = field(default_factory=list)
    """Conditions on sizes that are assumed for the whole interpretation."""
    returned: set[int] = field(default_factory=set)
    """The memory of the tensors that the outermost function returns."""
    written: set[int] = field(default_factory=set)
    """Allocations that something besides kernels may write to."""
    ranked: set[int] = field(default_factory=set)
    """Tensors that callers pass whose rank the program needs."""
    strides: dict[str, set[int]] = field(default_factory=dict)
    """The axes whose strides the program reads, by the name of a tensor that callers pass."""
    laid_out: dict[int, Tensor] = field(default_factory=dict)
    """Tensors that callers pass which are not contiguous, by allocation."""


@dataclass(frozen=True, slots=True)
class CallFrame:
    """The function that is executed; ``line`` is that of its begin.

    ``active`` are the functions around it, by path and line, with the number of launches before; ``recursive`` says
    whether one of them called itself. ``assumed`` is the number of conditions that held before.
    """

    function: str = ""
    path: str = ""
    line: int = 0
    active: tuple[tuple[tuple[str, int], int], ...] = ()
    recursive: bool = False
    assumed: int = 0
    loops: tuple[Loop | RangeLoop, ...] = ()


@dataclass(slots=True)
class Execution:
    """One interpretation of a program."""

    program: HostProgram
    """The unit of the function that is executed."""
    assumptions: HostAssumptions = HostAssumptions()
    state: State = field(default_factory=State)
    frame: CallFrame = CallFrame()
    reached: HostRun = field(default_factory=HostRun)
    scopes: list[dict[str, int | str]] = field(default_factory=lambda: [{}])
    """Names of variables with their cells, and of types."""
    results: list[Value] = field(default_factory=list)
    """What the function that is executed returns."""
    jumps: list[tuple[str, State]] = field(default_factory=list)
    """The states in which ``break`` and ``continue`` leave the statements of the innermost loop or ``switch``."""
    hint: str = ""
    """Name of the variable that the current expression initialises."""
    repeated: int = 0
    """Loops around the statement of which not every iteration is executed."""
    expanding: frozenset[str] = frozenset()
    """Constants that are evaluated."""
    globals: dict[str, int | str] | None = None
    """Variables at namespace scope that were used; None where they may have been changed before."""
    tables: dict[str, int | str] = field(default_factory=dict)
    """Those that stand for the same values whatever was executed before."""
    object_cells: dict[int, int] = field(default_factory=dict)
    """Variables for the objects in allocations."""
    depth: int = 0
    """Calls, and types of members, around the current code."""
    steps: int = 0
    types: list[str] = field(default_factory=list)
    """The type of each variable, which is at its cell less one; empty where it is not known, and for allocations."""
    branches: int = 0
    """Branches whose sides were joined."""

    def step(self) -> None:
        """Count a step.

        Raises
        ------
        LimitError
            If there were too many.
        """
        self.steps += 1
        if self.steps > MAX_STEPS:
            raise LimitError

    # ---- paths

    def assume(self, condition: Condition) -> None:
        """Continue with a condition that holds; one that cannot is left out."""
        self.state = self.state.assume(condition) or self.state

    def set_conditions(self, conditions: tuple[Condition, ...]) -> None:
        """Continue with other conditions."""
        self.state = replace(self.state, conditions=conditions)

    # ---- variables

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Open a scope."""
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()

    def declare(self, name: str, value: Value, type_name: str = "") -> int:
        """Declare a variable, of a type that is known or not, in the innermost scope and return its cell."""
        self.scopes[-1][name] = cell = self.new_cell(value, type_name)
        return cell

    def new_cell(self, value: Value, type_name: str = "") -> int:
        """Return the cell of a new variable."""
        self.types.append(type_name)
        self.set_cell(len(self.types), value)
        return len(self.types)

    def set_cell(self, cell: int, value: Value) -> None:
        """Set the value of a variable."""
        self.state = self.state.with_cell(cell, value)

    def held(self, cell: int) -> Value:
        """Return the value of a variable, unknown for one that the current path has not declared."""
        return self.state.cells.get(cell, Unknown())

    def get(self, place: Lvalue) -> Value:
        """Return the value of an lvalue."""
        value = self.held(place.cell)
        for part in place.path:
            value = value.fields.get(part, Unknown()) if isinstance(value, RecordValue) else Unknown()
        return value

    def assign(self, place: Lvalue, value: Value) -> None:
        """Assign to an lvalue."""
        self.set_cell(place.cell, with_field(self.held(place.cell), place.path, value))

    def name_of(self, place: Lvalue, default: str) -> str:
        """Return the name of a variable, or of a member of one."""
        return self.variable_names().get(place.cell, place.path[-1] if place.path else default)

    def variable_names(self) -> dict[int, str]:
        """Return the names of the variables that are visible, by cell."""
        return {cell: name for scope in self.scopes for name, cell in scope.items() if isinstance(cell, int)}

    # ---- integers

    def unknown(self, hint: str, origin: str, values: frozenset[int] = frozenset()) -> Size:
        """Return a new symbol, named after ``hint``."""
        base = "".join(sign if sign.isalnum() and sign.isascii() else "_" for sign in hint).strip("_") or "size"
        if base[0].isdigit() or base in _RESERVED:
            base = f"size_{base}"
        if self.assumptions.ranks and origin in ("computed", "constant"):
            base = f"{base}_{origin}"  # the name itself may be that of a parameter of a kernel
        name, count = base, 1
        while name in self.reached.symbols:
            count += 1
            name = f"{base}_{count}"
        self.reached.symbols[name] = HostSymbol(name, origin, values)
        return symbol(name, min((1, *values)))

    def passed(self, name: str) -> Size:
        """Return the number of a caller with a name: the same symbol wherever it is read."""
        return symbol(name, 1) if name in self.reached.symbols else self.unknown(name, "parameter")

    def named(self, name: str, value: Value) -> Value:
        """Return the size that a variable stands for; the value of one that stands for its value."""
        if name not in self.assumptions.named or not isinstance(value, Size | Ranged | Unknown | FloatValue):
            return value
        return self.passed(name)

    def scaled(self, name: str, value: Value, code: Expression | None) -> Value:
        """Return a symbol for a constant that may be smaller; other values unchanged.

        ``code`` is its initialiser. One that is computed from other constants has a relation to them.
        """
        value = self.named(name, value)
        scalable = self.assumptions.scalable
        smallest = _SCALED if "*" in scalable else _SCALED_LAST if "**" in scalable else None
        size = value.constant if isinstance(value, Size) else None
        if smallest is None or size is None or name in scalable or size < smallest or not is_number(code):
            return value
        for other in self.reached.symbols.values():
            if other.origin == "constant" and size in other.values:
                return symbol(other.name, 1)
        return self.unknown(name, "constant", frozenset({size}))

    def integer(self, value: Value) -> Size | None:
        """Return a value as an integer; None for one that is not known."""
        if isinstance(value, Undetermined) and value.tensor.allocation not in self.reached.tensors:
            return self.passed(value.tensor.name)
        if isinstance(value, FloatValue):
            return truncated(value)
        if isinstance(value, Condition) and value.value is not None:
            return number(int(value.value))
        return value if isinstance(value, Size) else None

    # ---- memory

    def allocate(self, name: str, size: Size | None, space: str, contents: Contents | None = None) -> Pointer:
        """Allocate memory of ``size`` bytes."""
        self.types.append("")
        self.set_memory(len(self.types), Allocation(name, size, space, contents or Contents()))
        return Pointer(len(self.types), ZERO)

    def memory(self, allocation: int) -> Allocation:
        """Return an allocation."""
        return self.state.heap[allocation]

    def set_memory(self, allocation: int, memory: Allocation) -> None:
        """Replace the record of an allocation."""
        self.state = self.state.with_memory(allocation, memory)

    def set_contents(self, pointer: Value, contents: Contents) -> None:
        """Replace the known contents of the memory at a pointer."""
        if isinstance(pointer, Pointer) and pointer.allocation is not None:
            self.set_memory(pointer.allocation, replace(self.memory(pointer.allocation), contents=contents))

    def contents(self, pointer: Value) -> Contents:
        """Return the known contents of the memory at a pointer."""
        if isinstance(pointer, Pointer) and pointer.allocation is not None:
            return self.memory(pointer.allocation).contents
        return Contents("any")

    def store(self, pointer: Pointer, value: Value) -> None:
        """Store a value to an element of an array; what it held before may remain in others."""
        if pointer.allocation is None:
            return
        before = self.memory(pointer.allocation).contents
        low, high = bounds(value)
        if before.kind == "none":
            after = Contents("any", low, high, isinstance(value, Ranged))
        elif low is None or high is None or before.low is None or before.high is None:
            after = Contents("any")
        else:
            drawn = before.drawn and isinstance(value, Ranged)
            after = Contents("any", extreme("min", before.low, low), extreme("max", before.high, high), drawn)
        self.set_contents(pointer, after)

    def object_at(self, value: Value) -> Lvalue | None:
        """Return the object that a pointer points to."""
        if isinstance(value, Lvalue):
            return value
        if isinstance(value, Pointer) and value.allocation is not None:
            if value.allocation not in self.object_cells:
                self.object_cells[value.allocation] = self.declare(f"*{value.allocation}", RecordValue("object"))
            return Lvalue(self.object_cells[value.allocation])
        return None

    def escape(self, value: Value) -> None:
        """Forget the contents of memory that a function which is not known may write to."""
        if isinstance(value, Lvalue):
            inner = self.get(value)
            if isinstance(inner, Size):
                self.assign(value, self.unknown(self.hint or "size", "computed"))
            else:
                self.escape(inner)
        elif isinstance(value, RecordValue):
            for inner in value.fields.values() if value.type != "tensor sizes" else ():
                if isinstance(inner, Pointer | Tensor):
                    self.escape(inner)
        elif isinstance(value, Pointer | Tensor) and value.allocation is not None:
            known = self.memory(value.allocation)
            self.reached.written.add(value.allocation)
            self.set_memory(value.allocation, replace(known, contents=Contents("any"), shared=True))
