"""The interpretation of one node of host code, by its kind.

:mod:`.expressions`, :mod:`.functions` and :mod:`.statements` say what the kinds mean; each may evaluate and execute any
other. Nothing is executed: an operation that is not known has a value that is not known, and a function that is not
known may have written to all memory that it was passed.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias, TypeVar

from gpuemu_lsp.engine.hostcode.ir import Expression, Node, Statement
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.values import Lvalue, Pointer, Unknown, Value
from gpuemu_lsp.engine.symbolic.size import TooComplexError

N = TypeVar("N", bound=Node)
_evaluators: dict[type[Any], Callable[[Execution, Any], Value]] = {}
_executors: dict[type[Any], Callable[[Execution, Any], str | None]] = {}
Handler: TypeAlias = "Callable[[Execution, list[Value], tuple[str, ...], str], Value]"
"""A function of a library: it is passed its arguments, template arguments and name, and returns its value."""
Method: TypeAlias = "Callable[[Execution, Value, list[Value], Lvalue | Pointer | None, tuple[str, ...]], Value | None]"
"""A method: it is passed its object, the arguments, the place of the object, and template arguments."""
EXIT = "exit"
"""The type of the unknown value of a call that does not return."""


def evaluates(
    *kinds: type[N],
) -> Callable[[Callable[[Execution, N], Value]], Callable[[Execution, N], Value]]:
    """Let a function give the value of some kinds of expressions."""

    def register(function: Callable[[Execution, N], Value]) -> Callable[[Execution, N], Value]:
        _evaluators.update(dict.fromkeys(kinds, function))
        return function

    return register


def executes(
    kind: type[N],
) -> Callable[[Callable[[Execution, N], str | None]], Callable[[Execution, N], str | None]]:
    """Let a function execute a kind of statement."""

    def register(function: Callable[[Execution, N], str | None]) -> Callable[[Execution, N], str | None]:
        _executors[kind] = function
        return function

    return register


def evaluate(run: Execution, node: Expression | None) -> Value:
    """Return the value of an expression; its effects are applied."""
    if node is None:
        return Unknown()
    run.step()
    try:
        value = _evaluators[type(node)](run, node)
    except TooComplexError:
        value = Unknown()
    return Unknown(value.type, node) if type(value) is Unknown and value.code is None else value


def execute(run: Execution, node: Statement | None) -> str | None:
    """Execute a statement; return ``return``, ``exit``, ``break`` or ``continue`` where it ends the sequence."""
    if node is None:
        return None
    function = _executors.get(type(node))
    if function is not None:
        run.step()
        return function(run, node)
    value = evaluate(run, node)  # type: ignore[arg-type]  # every other statement is an expression
    return EXIT if isinstance(value, Unknown) and value.type == EXIT else None
