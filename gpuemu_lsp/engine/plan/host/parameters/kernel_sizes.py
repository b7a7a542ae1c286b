"""What the code of a kernel says about the sizes with which it is launched.

A kernel is read as host code is: its expressions are evaluated with the sizes that a launch passes, in the normal form
of :mod:`~gpuemu_lsp.engine.symbolic.size`. What differs between threads, what changes, and sizes that the host computes
from others are symbols of the kernel's own, whose names begin with ``%`` as those of no program do.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

from gpuemu_lsp.engine.hostcode import calls, statements  # noqa: F401  # they register what each kind of node does
from gpuemu_lsp.engine.hostcode.interpreter import evaluate
from gpuemu_lsp.engine.hostcode.ir import (
    AddressOf,
    Assign,
    BinaryOperation,
    CallExpression,
    Constant,
    Declare,
    Loop,
    NameUse,
    Node,
)
from gpuemu_lsp.engine.hostcode.program import HostFunction
from gpuemu_lsp.engine.hostcode.state import Execution, HostRun, HostSymbol, LimitError
from gpuemu_lsp.engine.hostcode.values import HostLaunch, RecordValue, Unknown, Value
from gpuemu_lsp.engine.hostcode.walk import children, walk
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.symbolic.size import Size, SizeOperation, SizeSymbol, symbol, symbols

_LEAST_TILE, _LARGEST_TILE = 32, 1024
_OWN = "%"
"""Begin of the names of a kernel's own symbols."""
_INDICES = {"threadIdx": 0, "blockIdx": 0, "blockDim": 1, "gridDim": 1}
"""Built-in variables, and the least value of each."""
_LESS, _GREATER = ("<", "<="), (">", ">=")
_MAY_ROUND = frozenset("+-/") | {">>"}
"""Operators of quotients that are rounded up: ``(n + 3) / 4``, ``n / 4 + (n % 4 != 0)``, ``(n + 3) >> 2``."""


@dataclass(frozen=True, slots=True)
class KernelSizes:
    """What a kernel does with the sizes of one of its launches.

    ``tiles`` are the numbers that it has as literals, constants and arguments, the largest first: a scalar argument may
    divide a size, as the number of heads does. ``bounded`` are the symbols in sizes with which it compares each
    element's index: it is for any number of elements. ``rounded`` are those that it divides and rounds up itself: it is
    for any remainder.
    """

    tiles: tuple[int, ...]
    bounded: frozenset[str] = frozenset()
    rounded: frozenset[str] = frozenset()


def kernel_sizes(context: KernelContext, launch: HostLaunch, run: HostRun) -> KernelSizes:
    """Return what a kernel does with the sizes of a launch, which an interpretation reached."""
    numbers = {value.constant or 0 for value in launch.arguments if isinstance(value, Size)}
    named = [text.strip("() uUlL") for text in context.bindings.values()]
    written = {int(text) for text in named if text.isdigit()} | {context.declaration.max_threads or 0}
    definition = context.definition
    if definition is None:
        return KernelSizes(_tiles(numbers, written))
    reading = _Reading(context, launch, definition, run)
    return KernelSizes(
        _tiles(numbers, written | reading.numbers), frozenset(reading.bounded), frozenset(reading.rounded)
    )


def guarded_sizes(context: KernelContext, launch: HostLaunch) -> frozenset[str]:
    """Return the symbols in integers that a kernel compares with: in `if (i < n)` the size `n` is a bound."""
    compared = frozenset[int]() if context.code is None else context.code.compared_parameters
    return frozenset[str]().union(
        *(
            symbols(value)
            for number, value in enumerate(launch.arguments)
            if number in compared and isinstance(value, Size)
        )
    )


def _tiles(numbers: set[int], written: set[int]) -> tuple[int, ...]:
    """Return the sizes of tiles among arguments and the numbers in the code, where small ones mean much else."""
    tiles = numbers | {value for value in written if value >= _LEAST_TILE}
    return tuple(sorted((value for value in tiles if 1 < value <= _LARGEST_TILE), reverse=True))


class _Reading:
    """One pass over the code of a kernel, in the order in which it is written."""

    def __init__(self, context: KernelContext, launch: HostLaunch, definition: HostFunction, host: HostRun) -> None:
        self.numbers: set[int] = set()
        self.bounded: set[str] = set()
        self.rounded: set[str] = set()
        self._program = host.symbols.keys()
        self._sizes = {*host.symbols}
        """Symbols that are the same for all threads: those of the program, and what the host computes from them."""
        self._run = run = Execution(definition.unit, reached=HostRun(symbols={**host.symbols}))
        self._threads = {f"{_OWN}threadIdx.{axis}" for axis in "xyz"}
        """Symbols that differ by one from thread to thread: one that is multiplied gives a thread several elements."""
        try:
            body = definition.body.statements
            if body is None:
                return
            self._changed = set(_changed_variables(body))
            run.scopes[-1] |= context.bindings
            for name, least in _INDICES.items():
                fields = {axis: self._symbol(f"{_OWN}{name}.{axis}", least) for axis in "xyz"}
                run.declare(name, RecordValue("dim3", fields))
            for param, value in zip(context.declaration.params, launch.arguments, strict=False):
                self._declare(param.name, self._passed(param.name, value))
            self._read(body)
        except (LimitError, RecursionError):
            pass  # what was read until there holds

    def _symbol(self, name: str, least: int | None = None) -> Size:
        self._run.reached.symbols[name] = HostSymbol(name, "computed")
        return symbol(name, least)

    def _passed(self, name: str, value: Value) -> Value:
        """Return what a launch passes, as far as it is a size of the program, or made of such."""
        if isinstance(value, RecordValue):
            fields = {key: self._passed(f"{name}.{key}", each) for key, each in value.fields.items()}
            return replace(value, fields=fields)
        if not isinstance(value, Size):
            return Unknown()
        if value.name is not None or value.constant is not None:
            return value
        self._sizes.add(f"{_OWN}{name}")
        return self._symbol(f"{_OWN}{name}")

    def _declare(self, name: str, value: Value) -> None:
        if name in self._changed:
            changing = f"{_OWN}{name}.{len(self._run.types)}"
            if self._is_of_thread(value):
                self._threads.add(changing)
            value = self._symbol(changing)
        self._run.declare(name, value)

    def _read(self, node: Node) -> None:
        match node:
            case Loop():
                for each in node.start:
                    self._read(each)
                parts = [node.condition] if self._takes_elements(node) else []
                for part in (*parts, node.body, node.update):
                    if part is not None:
                        self._read(part)
                return
            case Declare() if node.value is not None:
                self._declare(node.name, evaluate(self._run, node.value))
            case Declare():
                self._declare(node.name, Unknown())
            case Assign(target=NameUse(), operator=""):
                self._assign(node)
            case Constant() | NameUse():
                value = evaluate(self._run, node)
                if isinstance(value, Size) and value.constant is not None:
                    self.numbers.add(value.constant)
            case BinaryOperation() if node.operator in (*_LESS, *_GREATER):
                self._compare(node)
            case BinaryOperation() | CallExpression():
                self._round(node)
        for child in children(node):
            self._read(child)

    def _assign(self, node: Assign) -> None:
        target = evaluate(self._run, node.target)
        name = target.name if isinstance(target, Size) else None
        if name is not None and self._is_of_thread(evaluate(self._run, node.value)):
            self._threads.add(name)

    def _compare(self, node: BinaryOperation) -> None:
        """Note the sizes that something of the kernel's own is compared with."""
        left, right = evaluate(self._run, node.left), evaluate(self._run, node.right)
        for size, other in ((left, right), (right, left)):
            if not isinstance(other, Size) or not symbols(other) <= self._sizes:
                self.bounded |= self._factors(size)

    def _round(self, node: BinaryOperation | CallExpression) -> None:
        """Note a size of which a quotient is rounded up here."""
        if isinstance(node, BinaryOperation) and node.operator not in _MAY_ROUND:
            return
        rounded = self._rounded_up(evaluate(self._run, node))
        operands = (node.left, node.right) if isinstance(node, BinaryOperation) else node.arguments
        if rounded is not None and all(self._rounded_up(evaluate(self._run, each)) != rounded for each in operands):
            self.rounded.add(rounded)

    def _factors(self, value: Value) -> set[str]:
        """Return the symbols in a sum of products of sizes; none if it has something of the kernel's own."""
        if not isinstance(value, Size) or not symbols(value) <= self._sizes:
            return set()
        atoms = chain.from_iterable(factors for factors, _ in value.terms)
        return {atom.name for atom in atoms if isinstance(atom, SizeSymbol)} & self._program

    def _rounded_up(self, value: Value) -> str | None:
        """Return the symbol of which a value is the quotient, rounded up."""
        atom = value.atom if isinstance(value, Size) else None
        name = atom.left.name if isinstance(atom, SizeOperation) and atom.operator == "ceil_div" else None
        return name if name in self._program else None

    def _takes_elements(self, node: Loop) -> bool:
        """Return whether a loop compares the index of each element, as most do.

        One over tiles, ``for (k = 0; k < n; k += 16)``, compares only the first index of each, unless its threads begin
        at their own.
        """
        if not isinstance(node.update, Assign) or not node.start:
            return node.update is None or self._is_by_element(node.update)
        return self._is_by_element(node.update) or any(map(self._is_of_thread, self._first_values(node)))

    def _first_values(self, node: Loop) -> Iterator[Value]:
        for each in node.start:
            if isinstance(each, Declare | Assign) and each.value is not None:
                yield evaluate(self._run, each.value)

    def _is_by_element(self, update: Node) -> bool:
        """Return whether a loop's update is by one element, or by those of the other threads."""
        if not isinstance(update, Assign):
            return any(isinstance(each, Assign) and self._is_by_element(each) for each in children(update))
        step = evaluate(self._run, update.value)
        if not isinstance(step, Size) or update.operator not in ("+", "-"):
            return False
        return step.constant == 1 or any(
            name.startswith((f"{_OWN}blockDim", f"{_OWN}gridDim")) for name in symbols(step)
        )

    def _is_of_thread(self, value: Value) -> bool:
        """Return whether a value differs by one from thread to thread, or within a group of threads."""
        if not isinstance(value, Size):
            return False
        alone = (factors[0] for factors, coefficient in value.terms if len(factors) == 1 and abs(coefficient) == 1)
        return any(
            atom.name in self._threads if isinstance(atom, SizeSymbol) else any(map(self._is_of_thread, atom.operands))
            for atom in alone
        )


def _changed_variables(body: Node) -> Iterator[str]:
    """Yield the variables that some code assigns, or of which it takes the address."""
    for node in walk(body):
        target = node.target if isinstance(node, Assign) else node.operand if isinstance(node, AddressOf) else None
        if isinstance(target, NameUse):
            yield target.name
