"""Operators of host code on numbers, lists, tensors and conditions."""

from __future__ import annotations

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.arithmetic import both, operate, promoted, truth
from gpuemu_lsp.engine.hostcode.branches import choose
from gpuemu_lsp.engine.hostcode.decisions import constraints_of, decide
from gpuemu_lsp.engine.hostcode.interpreter import evaluate, evaluates
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.tensors import compared_sizes, copied, items_of, listed, number_of
from gpuemu_lsp.engine.hostcode.values import DataType, FloatValue, Tensor, Undetermined, Unknown, Value, is_null
from gpuemu_lsp.engine.symbolic.conditions import Condition, any_of, negated
from gpuemu_lsp.engine.symbolic.constraints import Constraints
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, Size, add, multiply, number

_COMPARISONS = frozenset({"<", "<=", ">", ">="})
_OF_INTEGERS = frozenset({"+", "-", "*", "//", "%", "&", "|", "^", "<<", ">>"})
"""Operators whose result on integers is an integer."""


@evaluates(ir.BinaryOperation)
def _binary(run: Execution, node: ir.BinaryOperation) -> Value:
    if node.operator in ("&&", "||"):
        decided = decide(run, node)
        if decided is not None:
            return Condition(decided)
    left, right = evaluate(run, node.left), evaluate(run, node.right)
    if node.operator == "&&":
        return both(truth(left), truth(right))
    if node.operator == "||":
        return negated(both(negated(truth(left)), negated(truth(right))))
    if node.operator in ("==", "!=") and _may_be_null(run, left, right):
        return Condition()
    left, right = number_of(run, left), number_of(run, right)
    if node.operator == "in":
        items = items_of(run, right)
        if items is None or left == DataType(""):
            return _undecided(left)
        return any_of(truth(_equal(run, left, item)) for item in items)
    if node.operator in ("==", "!="):
        return _equal(run, left, right) if node.operator == "==" else negated(truth(_equal(run, left, right)))
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        return _elementwise(run, node.operator, left, right)
    items = items_of(run, left)
    if items is not None and node.operator == "+" and (others := items_of(run, right)) is not None:
        return listed([*items, *others])
    if items is not None and node.operator == "*" and isinstance(right, Size) and 0 <= (right.constant or -1) < 9:
        return listed(items * (right.constant or 0))
    if node.operator in ("+", "-", "*"):
        left, right = _as_integer(run, left), _as_integer(run, right)
    value = operate(node.operator, left, right)
    return _without_large(run, value) if isinstance(value, Condition) else value


def _may_be_null(run: Execution, left: Value, right: Value) -> bool:
    """Return whether a parameter without a type, of which no use is known, is compared with None."""
    value, other = (left, right) if isinstance(left, Undetermined) else (right, left)
    return isinstance(value, Undetermined) and is_null(other) and value.tensor.allocation not in run.reached.tensors


def _without_large(run: Execution, condition: Condition) -> Condition:
    """Return a comparison of a size with a number that no size reaches as a known one."""
    left, right = condition.sides or (ZERO, ZERO)
    largest = run.assumptions.largest
    if largest is None or left.name is None or (right.constant or 0) < largest:
        return condition
    return Condition(condition.operator in ("<", "<=", "!="))


def _equal(run: Execution, left: Value, right: Value) -> Value:
    compared = compared_sizes(run, left, right)
    value = operate("==", number_of(run, left), number_of(run, right)) if compared is None else compared
    if isinstance(value, Condition) and value.sides is not None and _differ(*value.sides):
        return Condition(False)
    return _without_large(run, value) if isinstance(value, Condition) else value


def _differ(left: Size, right: Size) -> bool:
    """Return whether two sums of sizes differ, also where sizes that are positive here are zero: ``n + 8`` and 1."""
    difference = Constraints().bounds(add(left, right, -1))
    return difference.low > 1 or difference.high < -1


def _undecided(value: Value) -> Condition:
    return Condition(None, "==", value) if isinstance(value, Size) else Condition()


def _elementwise(run: Execution, operator: str, left: Value, right: Value) -> Value:
    """Return the result of an operator on tensors, if the sizes of one are the last ones of the other."""
    tensors = sorted(
        (side for side in (left, right) if isinstance(side, Tensor)), key=lambda tensor: -len(tensor.sizes or ())
    )
    if len(tensors) == 2:
        sizes, others = (tensor.sizes for tensor in tensors)
        store = constraints_of(run.state.conditions)
        if sizes is None or others is None:
            return Unknown()
        last = sizes[len(sizes) - len(others) :]
        if [store.resolved(size) for size in last] != [store.resolved(size) for size in others]:
            return Unknown()
    types = {run.memory(tensor.allocation).dtype for tensor in tensors}
    real = all(dtype.startswith(("float", "bfloat")) for dtype in types)
    # Numbers keep the type of a tensor, but for fractions with one of integers; a comparison has truth values.
    keeps = len(types) == 1 and operator not in _COMPARISONS and (real or operator in _OF_INTEGERS)
    number_ = all(isinstance(side, Tensor | Size) or (real and isinstance(side, FloatValue)) for side in (left, right))
    return copied(run, tensors[0], types.pop() if keeps and number_ else "")


def _as_integer(run: Execution, value: Value) -> Value:
    """Return a condition that is not known as the integer it is converted to: `n / b + (n % b != 0)`."""
    unknown = isinstance(value, Condition) and value.value is None and value.operator
    return choose(run, value, ONE, ZERO, run.hint) if isinstance(value, Condition) and unknown else value


@evaluates(ir.UnaryOperation)
def _unary(run: Execution, node: ir.UnaryOperation) -> Value:
    value = number_of(run, evaluate(run, node.operand))
    if node.operator == "!":
        return negated(truth(value))
    value = promoted(value)
    match node.operator, value:
        case "-", Size():
            return multiply(value, number(-1))
        case "-", FloatValue():
            return operate("*", value, number(-1))
        case "~", Size(constant=int(known)):
            return number(~known)
        case "+", _:
            return value
    return Unknown()
