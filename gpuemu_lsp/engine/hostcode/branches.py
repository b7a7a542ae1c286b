"""Values that depend on a condition, and the states after two branches."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import takewhile

from gpuemu_lsp.engine.hostcode.selections import joined_functions, under
from gpuemu_lsp.engine.hostcode.state import Execution, State
from gpuemu_lsp.engine.hostcode.values import (
    Allocation,
    Choice,
    Contents,
    HostFunctionName,
    Pointer,
    RecordValue,
    Tensor,
    Unknown,
    Value,
)
from gpuemu_lsp.engine.symbolic.conditions import Condition, negated
from gpuemu_lsp.engine.symbolic.size import (
    ZERO,
    Size,
    SizeOperation,
    add,
    ceil_div,
    divide,
    extreme,
    symbol,
    symbols,
)


def join(run: Execution, condition: Condition, other: State) -> None:
    """Join the current state, in which a condition is true, with that of another path."""
    names = run.variable_names()
    state = run.state
    run.branches += 1
    for cell in sorted(state.cells.differing(other.cells)):
        own, value = state.cells.get(cell), other.cells.get(cell)
        if own is not None and value is not None and own != value:
            run.set_cell(cell, choose(run, condition, own, value, names.get(cell, "")))
    for key in sorted(state.heap.differing(other.heap)):
        memory, own_memory = other.heap.get(key), run.state.heap.get(key)
        if memory is not None and own_memory != memory:
            run.set_memory(key, memory if own_memory is None else _joined(own_memory, memory))


def after_jumps(run: Execution, ended: str | None, kind: str) -> str | None:
    """Continue where ``break`` or ``continue`` leads to, with the states of all paths; return how other paths ended."""
    states = [state for jumped, state in run.jumps if jumped == kind]
    run.jumps = [jump for jump in run.jumps if jump[0] != kind]
    if not states:
        return ended
    if ended is not None:
        # The path ends here with this jump, whose state is the last one, or with another one.
        run.state = states.pop().with_allocations_of(run.state)
    for state in states:
        join(run, Condition(), state)
        pairs = zip(run.state.conditions, state.conditions, strict=False)
        run.set_conditions(tuple(own for own, _ in takewhile(lambda pair: pair[0] == pair[1], pairs)))
    return None


@contextmanager
def own_jumps(run: Execution) -> Iterator[None]:
    """Execute a loop or ``switch``, whose jumps are its own."""
    outer, run.jumps = run.jumps, []
    try:
        yield
    finally:
        run.jumps = outer + [jump for jump in run.jumps if jump[0] == "continue"]


def choose(run: Execution, condition: Condition, yes: Value, no: Value, hint: str = "") -> Value:
    """Return the value that is ``yes`` where a condition is true and ``no`` elsewhere."""
    if yes == no or condition.value is True:
        return yes
    if condition.value is False:
        return no
    if isinstance(yes, Size) and isinstance(no, Size):
        return _chosen(run, condition, yes, no, hint)
    if isinstance(yes, RecordValue) and isinstance(no, RecordValue) and yes.type == no.type:
        keys = dict.fromkeys((*yes.fields, *no.fields))
        return RecordValue(
            yes.type,
            {
                key: choose(run, condition, yes.fields.get(key, Unknown()), no.fields.get(key, Unknown()), hint + key)
                for key in keys
            },
        )
    if isinstance(yes, Tensor) and isinstance(no, Tensor):
        return _either_tensor(run, yes, no)
    for one, other in ((yes, no), (no, yes)):
        if isinstance(other, Tensor) and not (isinstance(one, Unknown) and one.type not in ("", "auto")):
            return Unknown()  # None or any tensor, not a variable that has a type and no value
        # The null pointer and an uninitialised variable are not passed to a kernel.
        if _is_missing(one) and isinstance(other, Pointer | Tensor | HostFunctionName | Choice | RecordValue):
            # Of two such values, the pointer may be one that is not known.
            return Unknown() if _is_missing(other) and Unknown in (type(one), type(other)) else other
    if isinstance(yes, HostFunctionName | Choice):
        both = isinstance(no, HostFunctionName | Choice)
        return joined_functions(under(yes, [condition]), under(no, [negated(condition)])) if both else yes
    if isinstance(yes, Pointer) and isinstance(no, Pointer):
        return _either(run, yes, no)
    if isinstance(yes, Size) or isinstance(no, Size):
        return run.unknown(hint, "computed")
    return Unknown()


def _is_missing(value: Value) -> bool:
    return isinstance(value, Unknown) or (isinstance(value, Pointer) and value.allocation is None)


def _either(run: Execution, yes: Pointer, no: Pointer) -> Pointer:
    """Return a pointer to one of two allocations."""
    if yes.allocation == no.allocation or yes.allocation is None or no.allocation is None:
        return yes
    mine, theirs = run.state.heap.get(yes.allocation), run.state.heap.get(no.allocation)
    if mine is None or theirs is None:
        return yes
    made = run.allocate(mine.name, mine.size if mine.size == theirs.size else None, mine.space, Contents("some"))
    assert made.allocation is not None
    elements = mine.elements if mine.elements == theirs.elements else None
    sizes = mine.sizes if mine.sizes == theirs.sizes else None
    dtype = mine.dtype if mine.dtype == theirs.dtype else ""
    known = replace(run.memory(made.allocation), shared=True, elements=elements, sizes=sizes, dtype=dtype)
    run.set_memory(made.allocation, replace(known, exact=mine.exact and theirs.exact))
    run.reached.written.add(made.allocation)
    return replace(yes, allocation=made.allocation)


def _either_tensor(run: Execution, yes: Tensor, no: Tensor) -> Value:
    """Return a tensor in one of two allocations; unknown for different views."""
    if (yes.strides, yes.offset) != (no.strides, no.offset):
        return Unknown()
    joined = _either(run, Pointer(yes.allocation, ZERO), Pointer(no.allocation, ZERO)).allocation
    return replace(yes, allocation=joined or yes.allocation, sizes=yes.sizes if yes.sizes == no.sizes else None)


def _chosen(run: Execution, condition: Condition, yes: Size, no: Size, hint: str) -> Size:
    operator, left, right = condition.operator, condition.left, condition.right
    if left is not None and right is not None and operator in ("<", "<=", ">", ">="):
        smaller = operator in ("<", "<=")
        if (yes, no) in ((left, right), (right, left)):
            takes_left = yes == left
            return extreme("min" if smaller == takes_left else "max", left, right)
        # Of integers, ``n > 0 ? n : 1`` is the larger of n and 1.
        taken, bound = (yes, no) if operator in ("<", ">") else (no, yes)
        upper = operator in ("<", ">=")
        if taken == left and add(bound, right, -1).constant == (-1 if upper else 1):
            return extreme("min" if upper else "max", left, bound)
    step = add(yes, no, -1).constant
    if left is not None and right is not None and step in (1, -1):
        rounding = _rounding(condition)
        if rounding is not None:
            exact, over = (yes, no) if rounding[2] else (no, yes)
            if add(over, exact, -1).constant == 1:
                up = add(ceil_div(rounding[0], rounding[1]), divide(rounding[0], rounding[1]), -1)
                return add(exact, up)
    for one, other in ((yes, no), (no, yes)):
        value = other.constant
        names = symbols(one)
        if value is not None and len(names) == 1:
            name = next(iter(names))
            if run.reached.symbols[name].origin in ("input", "constant") and one == symbol(name):
                known = run.reached.symbols[name]
                run.reached.symbols[name] = replace(known, values=known.values | {value})
                return one
    first, second = yes.constant, no.constant
    if first is not None and second is not None:
        made = run.unknown(hint, "constant", frozenset((first, second)))
        run.reached.sides[next(iter(symbols(made)))] = run.branches, condition, first, second
        return made
    return run.unknown(hint, "computed")


def _rounding(condition: Condition) -> tuple[Size, Size, bool] | None:
    """Return dividend, divisor and whether a condition is that there is no remainder."""
    left, right = condition.left, condition.right
    if left is not None and left.constant == 0 and condition.operator in ("==", "!="):
        left, right = right, left
    if left is None or right is None or right.constant != 0 or len(left.terms) != 1:
        return None
    factors, coefficient = left.terms[0]
    operation = factors[0] if coefficient > 0 and len(factors) == 1 else None
    if not isinstance(operation, SizeOperation) or operation.operator != "%":
        return None
    if condition.operator in ("==", "!=", ">"):
        return operation.left, operation.right, condition.operator == "=="
    return None


def _joined(one: Allocation, other: Allocation) -> Allocation:
    mine, theirs = one.contents, other.contents
    if mine == theirs:
        contents = mine
    elif "none" in (mine.kind, theirs.kind):
        contents = Contents("some")
    elif None in (mine.low, mine.high, theirs.low, theirs.high):
        contents = Contents("any")
    else:
        assert mine.low is not None and theirs.low is not None and mine.high is not None and theirs.high is not None
        contents = Contents("any", extreme("min", mine.low, theirs.low), extreme("max", mine.high, theirs.high))
    size = one.size if one.size == other.size else None
    return replace(
        one, size=size, contents=contents, kernels=max(one.kernels, other.kernels), shared=one.shared or other.shared
    )
