"""Conditions that are not known, where an interpretation assumes that flags and equalities of sizes hold or do not."""

from __future__ import annotations

from collections.abc import Iterable

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.arithmetic import truth
from gpuemu_lsp.engine.hostcode.interpreter import evaluate
from gpuemu_lsp.engine.hostcode.places import place_of
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.tensors import number_of
from gpuemu_lsp.engine.hostcode.values import Lvalue, RecordValue, StringValue, Undetermined, Unknown, Value
from gpuemu_lsp.engine.hostcode.walk import walk
from gpuemu_lsp.engine.symbolic.conditions import Condition, negated
from gpuemu_lsp.engine.symbolic.constraints import Constraints
from gpuemu_lsp.engine.symbolic.size import ONE, Size


def constraints_of(conditions: Iterable[Condition]) -> Constraints:
    """Return what some conditions say of sizes, but for those that contradict the ones before them."""
    store = Constraints()
    for condition in conditions:
        store = store.assume(condition) or store
    return store


def decided_condition(run: Execution, node: ir.Expression) -> Condition:
    """Return a condition, with its value if that is known or assumed."""
    condition = truth(evaluate(run, node))
    if condition == Condition() and (size := _read_size(run, node)) is not None:
        condition = Condition(None, "!=", size)
    if condition.value is not None or run.assumptions.decision is None:
        return condition
    decided = decide(run, node)
    if decided is None:
        decided = _decide_size(run, condition)
    return condition if decided is None else Condition(decided)


def _read_size(run: Execution, node: ir.Expression) -> Size | None:
    """Return a size on which a condition that is not understood depends: with it, fewer sizes may be possible."""
    names = [each for each in walk(node) if isinstance(each, ir.NameUse)]
    values = (number_of(run, evaluate(run, each)) for each in names)
    size = next((value for value in values if isinstance(value, Size) and value.constant is None), None)
    return ONE if size is None and any(run.program.find(each.base) for each in names) else size


def decide(run: Execution, node: ir.Expression) -> bool | None:
    """Return the assumed truth of a condition on flags and on texts such as a mode; None for any other.

    The variable has that value from there on.
    """
    decision = run.assumptions.decision
    match node:
        case _ if decision is None:
            return None
        case ir.UnaryOperation(operator="!"):
            inner = _decided(run, node.operand)
            return None if inner is None else not inner
        case ir.BinaryOperation(operator="&&" | "||" as operator):
            sides = [_decided(run, node.left), _decided(run, node.right)]
            settles = operator == "||"
            return settles if settles in sides else None if None in sides else not settles
        case ir.BinaryOperation(operator="==" | "!=" as operator, left=variable, right=ir.Constant(value=str(text))):
            equal = (operator == "==") == decision
            return decision if _assume_value(run, variable, StringValue(text) if equal else None) else None
        case ir.NameUse() | ir.FieldAccess():
            return decision if _assume_value(run, node, Condition(decision)) else None
    return None


def _decided(run: Execution, node: ir.Expression) -> bool | None:
    known = truth(evaluate(run, node)).value
    return decide(run, node) if known is None else known


def _assume_value(run: Execution, variable: ir.Expression, value: Value | None) -> bool:
    """Let a variable whose value is not known have one; return whether it is such a variable."""
    held = evaluate(run, variable) if isinstance(variable, ir.NameUse | ir.FieldAccess) else None
    is_open = isinstance(held, Unknown | Undetermined) or held == Condition()
    if not is_open:
        return False
    place = place_of(run, variable)
    owner = (
        run.get(Lvalue(place.cell, place.path[:-1])) if isinstance(place, Lvalue) and place.path else RecordValue("")
    )
    if value is not None and isinstance(place, Lvalue) and isinstance(owner, RecordValue):
        run.assign(place, value)
    return True


def _decide_size(run: Execution, condition: Condition) -> bool | None:
    """Assume a condition on sizes, or its opposite, so that only such sizes are checked; None for any other."""
    before = constraints_of(run.state.conditions)
    wanted = condition if run.assumptions.decision else negated(condition)
    after = before.assume(wanted) if wanted.sides is not None or wanted.parts else None
    if after is None or after == before or after.others != before.others:
        return None
    run.assume(wanted)
    run.reached.decided.append(wanted)
    return run.assumptions.decision
