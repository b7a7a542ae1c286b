"""Interpretation of a program from its entry points, and the launches that it makes."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.plan.host.calls import bind_parameter, call, call_function
from gpuemu_lsp.engine.plan.host.expressions import evaluate
from gpuemu_lsp.engine.plan.host.machine import HostSymbol, LimitError, Machine
from gpuemu_lsp.engine.plan.host.statements import execute
from gpuemu_lsp.engine.plan.host.syntax import ParsedFunction, ParsedProgram, is_table
from gpuemu_lsp.engine.plan.host.values import HostLaunch, Tensor
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import Size

_WORD = re.compile(rb"[A-Za-z_]\w*")
_LAUNCHES = (b"<<<", b"cudaLaunch", b"cuLaunch", b"cudaGraphAdd", b"ModuleGetFunction", b"LibraryGetKernel")
"""Parts of launches, and of functions that return the kernel of a name."""
_MAX_ROOTS = 12
_MAX_TOPS = 8
_MAX_DIRECT = 2
_MAX_SELECTIONS = 3
"""Functions between a table of kernels and the function that launches one of them."""
_REGISTRATION = ("PYBIND11_MODULE", "TORCH_LIBRARY", "NB_MODULE")
"""Functions that name others without calling them."""


@dataclass(frozen=True, slots=True)
class HostRun:
    """The launches of one interpretation, its symbols, and its copies to the host or to a caller."""

    launches: tuple[HostLaunch, ...]
    symbols: dict[str, HostSymbol]
    reads: tuple[tuple[int, Size | None, int], ...]
    numels: Mapping[str, str] = field(default_factory=dict)
    """Tensors by the symbol of their number of elements."""
    tensors: Mapping[int, str] = field(default_factory=dict)
    """Tensors that callers pass, by allocation."""
    sides: Mapping[str, tuple[int, Condition, int, int]] = field(default_factory=dict)
    """Constants of the two sides of a branch, by symbol."""


def interpret(
    program: ParsedProgram,
    root: ParsedFunction,
    scalable: frozenset[str] = frozenset(),
    device: frozenset[str] = frozenset(),
    scalar: str = "float",
    device_count: int = 1,
) -> HostRun:
    """Execute a function with arguments that are not known; those of ``main`` are a user's.

    ``scalar`` stands for its template parameters that are types.

    If ``scalable`` has ``*``, large constants become symbols, except those of the other names in it and of the names
    in device code, ``device``.
    """
    machine = Machine(root.unit or program, evaluate, execute, call, call_function, scalable, device)
    machine.function, machine.path = root.name, root.path
    machine.scalar, machine.device_count = scalar, device_count
    machine.globals = {} if root.name == "main" else None
    try:
        for name, _ in root.template:
            if name in root.value_parameters:
                machine.declare(name, machine.unknown(name, "parameter"))
            else:
                machine.scopes[-1][name] = scalar
        for parameter in root.parameters:
            bind_parameter(machine, parameter, None, "input" if root.name == "main" else "parameter")
        if root.body is not None:
            machine.execute(machine, root.body)
    except (LimitError, RecursionError):
        pass
    reads = [*machine.reads, *_returned(machine)] if not _is_called(program, root) else machine.reads
    return HostRun(
        tuple(machine.launches),
        machine.known,
        tuple(reads),
        dict(machine.numels),
        dict(machine.tensors),
        dict(machine.sides),
    )


def _returned(machine: Machine) -> Iterator[tuple[int, Size | None, int]]:
    """Yield the tensor that a function returns: its caller reads all of it.

    Of several tensors one may say which elements of the others have values, as the count of a compaction does.
    """
    for value in machine.results:
        if isinstance(value, Tensor) and not machine.heap[value.allocation].shared:
            yield value.allocation, machine.heap[value.allocation].extent, len(machine.launches)


def _is_called(program: ParsedProgram, root: ParsedFunction) -> bool:
    """Return whether a function of the program names another one, and may work on what that returns."""
    name = root.name.encode()
    functions = [one for unit in (program, *program.linked) for listed in unit.functions.values() for one in listed]
    return any(
        name in _WORD.findall(one.node.text or b"")
        for one in functions
        if one.name != root.name and not one.name.startswith(_REGISTRATION)
    )


def roots(program: ParsedProgram, kernels: Iterable[str]) -> list[ParsedFunction]:
    """Return the functions from which a launch of some kernels is reached and that no other function calls."""
    units = (program, *program.linked)
    functions = [one for unit in units for listed in unit.functions.values() for one in listed]
    words = {id(one): set(_WORD.findall(one.node.text or b"")) for one in functions}
    own = {id(one) for listed in program.functions.values() for one in listed}
    wanted = {name.encode() for name in kernels}
    wanted |= selectors(program, wanted)
    macros = {
        name.encode()
        for unit in units
        for name, known in unit.macros.definitions.items()
        if any("<<<" in macro.body or "cudaLaunch" in macro.body for macro in known)
    }
    reached = {
        id(one): one
        for one in functions
        # A kernel of the same name in another translation unit is another kernel.
        if id(one) in own and words[id(one)] & wanted and (_launches(one) or not macros.isdisjoint(words[id(one)]))
    }
    direct = list(reached.values())
    waiting = list(direct)
    called: set[int] = set()
    while waiting:
        target = waiting.pop()
        for one in functions:
            if one.name.startswith(_REGISTRATION):
                continue
            if one is not target and target.name.encode() in words[id(one)] and one.name != target.name:
                called.add(id(target))
                if id(one) not in reached:
                    reached[id(one)] = one
                    waiting.append(one)
    tops = [one for one in reached.values() if id(one) not in called]
    tops.sort(key=lambda one: one.name != "main")
    # Functions nearer to the launch follow: a caller may not reach it in a way that is understood.
    between = [one for one in reversed(reached.values()) if one not in tops]
    found = [*tops[:_MAX_TOPS], *between][:_MAX_ROOTS]
    # Of many callers none may show the arguments: the function with the launch stands for all of them.
    return found + [one for one in direct if one not in found][:_MAX_DIRECT]


def selectors(program: ParsedProgram, kernels: Iterable[bytes]) -> frozenset[bytes]:
    """Return the tables of a unit that have one of some kernels, and the functions that return one."""
    wanted = set(kernels)
    tables = {name.encode(): one for name, one in program.variables.items() if is_table(one)}
    listed = [(name, one.text or b"") for name, one in tables.items()]
    listed += [
        (name.encode(), one.node.text or b"")
        for name, known in program.functions.items()
        for one in known
        if not _launches(one) and b"return" in (one.node.text or b"")
    ]
    words = [(name, set(_WORD.findall(written))) for name, written in listed]
    for _ in range(_MAX_SELECTIONS):
        found = {name for name, used in words if not used.isdisjoint(wanted)} - wanted
        if not found:
            break
        wanted |= found
    return frozenset(wanted.difference(kernels))


def _launches(function: ParsedFunction) -> bool:
    written = function.node.text or b""
    return any(one in written for one in _LAUNCHES) or bool(function.template)
