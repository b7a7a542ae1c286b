"""Interpretation of a program from its entry points, and the launches that it makes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import zip_longest

from gpuemu_lsp.engine.hostcode import calls, statements  # noqa: F401  # they register what each kind of node does
from gpuemu_lsp.engine.hostcode.assumptions import HostAssumptions
from gpuemu_lsp.engine.hostcode.functions import bind_parameter
from gpuemu_lsp.engine.hostcode.interpreter import execute
from gpuemu_lsp.engine.hostcode.program import HostFunction, HostProgram
from gpuemu_lsp.engine.hostcode.state import CallFrame, Execution, HostCopy, HostRun, LimitError
from gpuemu_lsp.engine.hostcode.types import bind_argument
from gpuemu_lsp.engine.hostcode.values import Tensor

_MAX_ROOTS = 12
_MAX_TOPS = 8
_MAX_DIRECT = 2
_MAX_SELECTIONS = 3
"""Functions between a table of kernels and the function that launches one of them."""
_REGISTRATION = ("PYBIND11_MODULE", "TORCH_LIBRARY", "NB_MODULE")
"""Functions that name others without calling them."""


def interpret(program: HostProgram, root: HostFunction, assumptions: HostAssumptions) -> HostRun:
    """Execute a function with arguments that are not known; those of ``main`` are a user's."""
    run = Execution(root.unit, assumptions, frame=CallFrame(root.name, root.path, root.line))
    run.globals = {} if root.name == "main" else None
    try:
        for parameter, argument in zip_longest(root.template, assumptions.instance[: len(root.template)]):
            if argument:
                bind_argument(run, parameter.name, argument)
            elif parameter.number:
                run.declare(parameter.name, run.unknown(parameter.name, "parameter"))
            else:
                run.scopes[-1][parameter.name] = assumptions.scalar
        for parameter_ in root.body.parameters:
            bind_parameter(run, parameter_, None, "input" if root.name == "main" else "parameter")
        execute(run, root.body.statements)
    except (LimitError, RecursionError):
        pass
    if not _is_called(program, root):
        run.reached.reads += _returned(run)
    return run.reached


def _returned(run: Execution) -> Iterator[HostCopy]:
    """Yield the tensor that a function returns: its caller reads all of it.

    Of several tensors one may say which elements of the others have values, as the count of a compaction does.
    """
    for value in run.results:
        if isinstance(value, Tensor) and not run.memory(value.allocation).shared:
            yield HostCopy(value.allocation, run.memory(value.allocation).extent, len(run.reached.launches))


def _is_called(program: HostProgram, root: HostFunction) -> bool:
    """Return whether a function of the program names another one, and may work on what that returns."""
    return any(
        root.name in function.words
        for unit in (program, *program.linked)
        for function in unit.all_functions()
        if function.name != root.name and not function.name.startswith(_REGISTRATION)
    )


def roots(program: HostProgram, kernels: Iterable[str]) -> list[HostFunction]:
    """Return the functions from which a launch of some kernels is reached and that no other function calls."""
    functions = [function for unit in (program, *program.linked) for function in unit.all_functions()]
    direct = launching_functions(program, kernels)
    reached = dict.fromkeys(direct)
    waiting = list(direct)
    called: set[HostFunction] = set()
    while waiting:
        target = waiting.pop()
        for caller in functions:
            if caller.name.startswith(_REGISTRATION):
                continue
            if target.name in caller.words and caller.name != target.name:
                called.add(target)
                if caller not in reached:
                    reached[caller] = None
                    waiting.append(caller)
    tops = [function for function in reached if function not in called]
    tops.sort(key=lambda function: function.name != "main")
    # Functions nearer to the launch follow: a caller may not reach it in a way that is understood.
    between = [function for function in reversed(reached) if function not in tops]
    chosen = [*tops[:_MAX_TOPS], *between][:_MAX_ROOTS]
    # Of many callers none may show the arguments: the function with the launch stands for all of them.
    return chosen + [function for function in direct if function not in chosen][:_MAX_DIRECT]


def launching_functions(program: HostProgram, kernels: Iterable[str]) -> list[HostFunction]:
    """Return the functions of a unit that launch one of some kernels themselves."""
    wanted = selectors(program, kernels).union(kernels)
    macros = frozenset[str]().union(*(unit.launching_macros for unit in (program, *program.linked)))
    # A kernel of the same name in another translation unit is another kernel.
    return [
        function
        for function in program.all_functions()
        if not wanted.isdisjoint(function.words)
        and (function.launches or function.template or not macros.isdisjoint(function.words))
    ]


def selectors(program: HostProgram, kernels: Iterable[str]) -> frozenset[str]:
    """Return the tables of a unit that have one of some kernels, and the functions that return one."""
    kernels = frozenset(kernels)
    wanted = set(kernels)
    words = [(name, variable.words) for name, variable in program.variables.items() if variable.table]
    words += [
        (function.name, function.words)
        for function in program.all_functions()
        if not (function.launches or function.template) and "return" in function.words
    ]
    for _ in range(_MAX_SELECTIONS):
        more = {name for name, used in words if not used.isdisjoint(wanted)} - wanted
        if not more:
            break
        wanted |= more
    return frozenset(wanted - kernels)
