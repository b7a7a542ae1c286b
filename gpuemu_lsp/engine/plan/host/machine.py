"""State of the interpretation of host code: variables, memory, conditions, and the launches reached so far."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from gpuemu_lsp.engine.element_types import INTEGERS, dtype_size, element_type
from gpuemu_lsp.engine.plan.host.syntax import ParsedFunction, ParsedProgram, expression_of, is_constant, is_table
from gpuemu_lsp.engine.plan.host.values import (
    Allocation,
    Contents,
    FloatValue,
    HostLaunch,
    Lvalue,
    Pointer,
    Ranged,
    RecordValue,
    Unknown,
    Value,
    bounds,
    pointee,
    with_field,
)
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import (
    ZERO,
    Size,
    divide,
    extreme,
    multiply,
    number,
    substitute,
    symbol,
)

MAX_STEPS = 30_000
"""Statements and expressions of one interpretation."""
_MAX_ALIASES = 8
_SCALED, _SCALED_LAST = 1025, 257
"""Smallest constants that may be scaled down: at first, and if that is not enough."""
_LITERAL = re.compile(r"(?:[\s\d()*/+<xXuUlL'-]|sizeof\s*\([\w\s]+\))+")


class LimitError(Exception):
    """The interpretation takes too long."""


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


@dataclass(slots=True)
class Machine:
    """State of one interpretation. ``evaluate``, ``execute`` and ``call`` are the interpreter's functions."""

    program: ParsedProgram
    evaluate: Callable[[Machine, Node | None], Value]
    execute: Callable[[Machine, Node], str | None]
    call: Callable[[Machine, Node], Value]
    invoke: Callable[[Machine, ParsedFunction, list[Value], tuple[str, ...], int | None], Value]
    """Executes a function of the program, a member function with the cell of its object."""
    scalable: frozenset[str] = frozenset()
    """``*`` or ``**`` if large constants become symbols, and the names of those that do not."""
    device: frozenset[str] = frozenset()
    """Names in device code, whose constants keep their values."""
    cells: dict[int, Value] = field(default_factory=dict)
    heap: dict[int, Allocation] = field(default_factory=dict)
    scopes: list[dict[str, int | str]] = field(default_factory=lambda: [{}])
    launches: list[HostLaunch] = field(default_factory=list)
    conditions: list[Condition] = field(default_factory=list)
    known: dict[str, HostSymbol] = field(default_factory=dict)
    reads: list[tuple[int, Size | None, int]] = field(default_factory=list)
    """Copies to the host: the allocation, the bytes, and the number of launches before."""
    results: list[Value] = field(default_factory=list)
    hint: str = ""
    """Name of the variable that the current expression initialises."""
    function: str = ""
    path: str = ""
    depth: int = 0
    active: list[tuple[tuple[str, int], int]] = field(default_factory=list)
    """Functions that are being executed, by path and place, with the number of launches before."""
    recursive: bool = False
    """Whether one of them called itself."""
    repeated: int = 0
    """Loops around the statement of which not every iteration is executed."""
    steps: int = 0
    globals: dict[str, int | str] | None = None
    """Variables at namespace scope that were used; None where they may have been changed before."""
    tables: dict[str, int | str] = field(default_factory=dict)
    """Those that stand for the same values whatever was executed before."""
    assumed: int = 0
    """Conditions that held before the current function."""
    numels: dict[str, str] = field(default_factory=dict)
    """Tensors by the symbol of their number of elements."""
    tensors: dict[int, str] = field(default_factory=dict)
    """Tensors that callers pass, by allocation."""
    struct_cells: dict[int, int] = field(default_factory=dict)
    branches: int = 0
    """Branches whose sides were joined."""
    sides: dict[str, tuple[int, Condition, int, int]] = field(default_factory=dict)
    """The branch that gave a symbol one of two constants, its condition, and these."""
    expanding: frozenset[str] = frozenset()
    line: int | None = None  # of the macro that the current code is expanded from
    device_count: int = 1
    scalar: str = "float"
    """The type that stands for a template parameter of the function that the interpretation starts with."""
    cells_made: int = 0

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

    # ---- names

    def declare(self, name: str, value: Value) -> int:
        """Declare a variable in the innermost scope and return its cell."""
        self.cells_made += 1
        self.cells[self.cells_made] = value
        self.scopes[-1][name] = self.cells_made
        return self.cells_made

    def lookup(self, name: str) -> int | str | None:
        """Return the cell of a variable, the text of a type, or None."""
        for scope in reversed(self.scopes):
            if name in scope:
                return scope[name]
        found = self.program.variable(name)
        table = found is not None and is_table(found[1])
        if found is None or (not table and name in self.program.constants):
            return None
        known = self.tables if self.globals is None else self.globals
        if name not in known:
            outer, self.scopes, program = self.scopes, [known], self.program
            before = frozenset(known)
            known[name] = ""
            self.program = found[0]
            try:
                self.execute(self, found[1])
            finally:
                self.scopes, self.program = outer, program
            changing = self.globals is None and not is_constant(found[1])
            # One declaration may have several variables.
            for each, cell in known.items() if changing else ():
                assigned = any(unit.assigns(each) for unit in (self.program, *self.program.linked))
                if each not in before and isinstance(cell, int) and assigned:
                    self.cells[cell] = self._changed(each, self.held(cell))
        return known[name] or None

    def _changed(self, name: str, value: Value) -> Value:
        """Return a variable at namespace scope that may have been changed before the interpretation starts."""
        if isinstance(value, RecordValue) and value.type == "dim3":
            return RecordValue("dim3", {axis: self.unknown(f"{name}_{axis}", "computed") for axis in value.fields})
        if isinstance(value, RecordValue) or (isinstance(value, Pointer) and value.allocation is not None):
            return value
        written = value.type if isinstance(value, Unknown | Pointer) else ""
        if isinstance(value, Size) or is_integer_type(self.type_of(written)):
            return self.unknown(name, "computed")
        return Unknown(f"{written}*" if isinstance(value, Pointer) else written)

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Open a scope."""
        self.scopes.append({})
        try:
            yield
        finally:
            self.scopes.pop()

    def type_of(self, text: str) -> str:
        """Return a type as written with the names of aliases and template parameters replaced."""
        for _ in range(_MAX_ALIASES):
            text = text.replace("const ", "").removesuffix(" const").strip()
            found = self.lookup(text)
            if isinstance(found, str):
                text = found
            elif text in self.program.aliases:
                text = self.program.aliases[text]
            elif text in self.program.constants and not text.isdigit():
                text = self.program.constants[text]
            else:
                break
        return text

    def size_of(self, text: str) -> Size | None:
        """Return the bytes of a type."""
        text = self.type_of(text.strip())
        if text.endswith(("*", "&")) or "(" in text:
            return number(8)
        known = element_type(text)
        if known is not None:
            return number(dtype_size(known.dtype) * known.lanes)
        special = {"cufftComplex": 8, "cuComplex": 8, "cuDoubleComplex": 16, "clock_t": 8, "float3": 12, "dim3": 12}
        text = text.removeprefix("struct ").removeprefix("std::")
        if text in special:
            return number(special[text])
        return self.struct_size(text)

    def typed(self, pointer: Pointer, type_text: str) -> Pointer:
        """Return a pointer to elements of a type."""
        type_text = self.type_of(type_text.strip())
        if type_text in ("", "void", "auto"):
            return pointer
        size = self.size_of(type_text)
        return Pointer(
            pointer.allocation, pointer.offset, size.constant if size is not None else pointer.element, type_text
        )

    def struct_size(self, name: str) -> Size | None:
        """Return the bytes of a struct of plain fields."""
        node = self.program.structs.get(name)
        body = node.child_by_field_name("body") if node is not None else None
        if node is None or body is None or self.depth > 20:
            return None
        total, widest = 0, 1
        for one in body.named_children:
            if one.type != "field_declaration":
                if one.type in ("comment", "access_specifier", "function_definition"):
                    continue
                return None
            type_ = one.child_by_field_name("type")
            for declarator in one.children_by_field_name("declarator"):
                if declarator.type == "function_declarator":
                    continue
                pointer = declarator.type == "pointer_declarator"
                self.depth += 1
                size = number(8) if pointer else self.size_of((type_.text or b"").decode("latin-1") if type_ else "")
                self.depth -= 1
                width = size.constant if size is not None else None
                if width is None:
                    return None
                align = min(width & -width, 16)
                count = 1
                while declarator.type == "array_declarator":
                    extent = self.evaluate(self, declarator.child_by_field_name("size"))
                    length = extent.constant if isinstance(extent, Size) else None
                    if length is None:
                        return None
                    count *= length
                    declarator = declarator.child_by_field_name("declarator") or declarator.named_children[0]
                total = -(-total // align) * align + width * count
                widest = max(widest, align)
        return number(-(-total // widest) * widest) if total else number(1)

    # ---- integers

    def unknown(self, hint: str, origin: str, values: frozenset[int] = frozenset()) -> Size:
        """Return a new symbol, named after ``hint``."""
        base = "".join(sign if sign.isalnum() and sign.isascii() else "_" for sign in hint).strip("_") or "size"
        if base[0].isdigit() or base in ("min", "max", "ceil_div", "next_pow2", "select"):
            base = f"size_{base}"
        name, count = base, 1
        while name in self.known:
            count += 1
            name = f"{base}_{count}"
        self.known[name] = HostSymbol(name, origin, values)
        return symbol(name, min((1, *values)))

    def constant(self, name: str) -> Value | None:
        """Return the value of a constant of the files, or of a variable at namespace scope."""
        found = self.program.constants.get(name)
        if found is None or name in self.expanding:
            return None
        node = expression_of(found)
        if node is None:
            return None
        outer, self.expanding = self.expanding, self.expanding | {name}
        try:
            value = self.evaluate(self, node)
        finally:
            self.expanding = outer
        return value if name in self.device else self.scaled(name, value, found)

    def scaled(self, name: str, value: Value, written: str) -> Value:
        """Return a symbol for a constant that may be smaller; other values unchanged.

        ``written`` is the code of its initialiser. One that is computed from other constants has a relation to them.
        """
        size = value.constant if isinstance(value, Size) else None
        least = _SCALED if "*" in self.scalable else _SCALED_LAST if "**" in self.scalable else None
        if least is None or size is None or name in self.scalable or size < least or not _LITERAL.fullmatch(written):
            return value
        for known in self.known.values():
            if known.origin == "constant" and size in known.values:
                return symbol(known.name, 1)
        return self.unknown(name, "constant", frozenset({size}))

    def integer(self, value: Value, hint: str = "") -> Size | None:
        """Return a value as an integer; a symbol for one that is not known; None for other values."""
        if isinstance(value, Size):
            return value
        if isinstance(value, FloatValue):
            return self.truncated(value)
        if isinstance(value, Condition) and value.value is not None:
            return number(int(value.value))
        return None

    @staticmethod
    def truncated(value: FloatValue) -> Size | None:
        """Return a floating-point number converted to an integer."""
        if value.value is not None and abs(value.value) < 2**62:
            return number(int(value.value))
        if value.top is not None and value.bottom is not None:
            return divide(value.top, value.bottom)
        return None

    # ---- memory

    def allocate(self, name: str, size: Size | None, space: str, contents: Contents | None = None) -> Pointer:
        """Allocate memory of ``size`` bytes."""
        self.cells_made += 1
        self.heap[self.cells_made] = Allocation(name, size, space, contents or Contents())
        return Pointer(self.cells_made, ZERO)

    def set_contents(self, pointer: Value, contents: Contents) -> None:
        """Replace the known contents of the memory at a pointer."""
        if isinstance(pointer, Pointer) and pointer.allocation is not None:
            known = self.heap[pointer.allocation]
            self.heap[pointer.allocation] = replace(known, contents=contents)

    def contents(self, pointer: Value) -> Contents:
        """Return the known contents of the memory at a pointer."""
        if isinstance(pointer, Pointer) and pointer.allocation is not None:
            return self.heap[pointer.allocation].contents
        return Contents("any")

    def store(self, pointer: Pointer, value: Value) -> None:
        """Store a value to an element of an array; what it held before may remain in others."""
        if pointer.allocation is None:
            return
        before = self.heap[pointer.allocation].contents
        low, high = bounds(value)
        if before.kind == "none":
            after = Contents("any", low, high, isinstance(value, Ranged))
        elif low is None or high is None or before.low is None or before.high is None:
            after = Contents("any")
        else:
            drawn = before.drawn and isinstance(value, Ranged)
            after = Contents("any", extreme("min", before.low, low), extreme("max", before.high, high), drawn)
        self.set_contents(pointer, after)

    # ---- variables

    def held(self, cell: int) -> Value:
        """Return the value of a variable, unknown for one that the current path has not declared."""
        return self.cells.get(cell, Unknown())

    def get(self, place: Lvalue) -> Value:
        """Return the value of an lvalue."""
        value = self.cells.get(place.cell, Unknown())
        for part in place.path:
            value = value.fields.get(part, Unknown()) if isinstance(value, RecordValue) else Unknown()
        return value

    def assign(self, place: Lvalue, value: Value) -> None:
        """Assign to an lvalue."""
        self.cells[place.cell] = with_field(self.cells.get(place.cell, Unknown()), place.path, value)

    # ---- branches

    def snapshot(self) -> tuple[dict[int, Value], dict[int, Allocation]]:
        """Return a copy of variables and memory."""
        return dict(self.cells), dict(self.heap)

    def restore(self, state: tuple[dict[int, Value], dict[int, Allocation]]) -> None:
        """Restore a copy. Memory that was allocated since may still be returned."""
        self.cells, self.heap = dict(state[0]), {**self.heap, **state[1]}


def is_integer_type(text: str) -> bool:
    """Return whether a type is an integer type."""
    known = element_type(text)
    return known is not None and known.lanes == 1 and known.dtype in INTEGERS


__all__ = ["HostSymbol", "LimitError", "Machine", "bounds", "is_integer_type", "multiply", "pointee", "substitute"]
