"""Symbolic evaluation of expressions, calls of functions of the module included."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from gpuemu_lsp.engine.plan.wrappers.assumptions import Assumptions, SizeRelations
from gpuemu_lsp.engine.plan.wrappers.comparisons import compared
from gpuemu_lsp.engine.plan.wrappers.device_values import compiled_value
from gpuemu_lsp.engine.plan.wrappers.objects import Methods, attribute_of, dictionary
from gpuemu_lsp.engine.plan.wrappers.subscripts import slice_of, view
from gpuemu_lsp.engine.plan.wrappers.tensor_functions import DTYPES, copied
from gpuemu_lsp.engine.plan.wrappers.tensor_functions import attribute as tensor_attribute
from gpuemu_lsp.engine.plan.wrappers.values import (
    BoundKernel,
    DataType,
    DottedName,
    LiteralValue,
    LocalFunction,
    ObjectValue,
    Parameter,
    Quotient,
    SymbolicTensor,
    UnknownValue,
    Value,
    ValueSequence,
    named,
)
from gpuemu_lsp.engine.source.python.constants import UnknownText
from gpuemu_lsp.engine.source.python.constants import constant as module_constant
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.syntax import text_of
from gpuemu_lsp.engine.symbolic.size import Size, TooComplexError, add, floor_divide, modulo, multiply, number

MAX_CALLS = 8
_OPERATIONS = {"+": add, "-": Size.__sub__, "*": multiply, "//": floor_divide, "%": modulo}
_LONGEST = 512
"""Longest text of a size; longer ones are not known."""
_TENSOR_ATTRIBUTES = frozenset({"shape", "dtype", "ndim", "is_cuda", "T", "mT", "data", "device"})

Names = dict[str, Value]
OnCall = Callable[[str, tuple[Value, ...], Mapping[str, Value]], None]
"""Called with the name and the arguments of a call."""


class EvaluationLimitError(Exception):
    """A function takes too many steps to evaluate."""


@dataclass(slots=True)
class StepCount:
    """The statements that an evaluation has evaluated, those of other modules' functions included."""

    done: int = 0


@dataclass
class UnexpectedRankError(Exception):
    """A parameter is used as a tensor of another rank than assumed; the function is to be evaluated again."""

    name: str
    rank: int


@dataclass(frozen=True, slots=True)
class EvaluatedLaunch:
    """A launch with the values of its parts; ``node`` is the call."""

    kernel: str
    node: Node
    grid: Value
    arguments: tuple[Value, ...]
    keywords: Mapping[str, Value]
    starred: bool
    relations: SizeRelations
    """What holds where the launch is made."""


@dataclass(slots=True)
class ExpressionEvaluator(ABC):
    """Evaluates expressions of the functions of one module.

    ``functions`` are those of its top level by name, ``kernels`` the names of its Triton kernels. ``on_call`` is
    called with the name and the arguments of each call of one of the functions.
    """

    scope: ModuleScope
    functions: Mapping[str, Node]
    kernels: frozenset[str]
    assumptions: Assumptions
    classes: Mapping[str, Methods] = field(default_factory=dict)
    on_call: OnCall = lambda *_: None
    launches: list[EvaluatedLaunch] = field(default_factory=list)
    decision: bool | None = None
    """The assumed truth of conditions that are not known; None evaluates both branches."""
    decided: dict[str, bool | str] = field(default_factory=dict)
    """Variables by the truth, or the text, that was assumed for them."""
    _undecided: int = 0
    """Conditions around the current statement both of whose branches are evaluated."""
    _depth: int = 0
    steps: StepCount = field(default_factory=StepCount)

    @abstractmethod
    def run(self, function: Node, names: Names) -> Value:
        """Evaluate the body of a function; return what it returns."""

    @abstractmethod
    def call(self, node: Node, names: Names) -> Value:
        """Return the result of a call."""

    def truth(self, value: Value) -> bool | None:
        """Return whether a condition holds, None if that is not known."""
        if isinstance(value, LiteralValue):
            return bool(value.value)
        if isinstance(value, Size):
            number = value.constant
            return None if number is None else bool(number)
        return True if isinstance(value, SymbolicTensor | DataType | ObjectValue) else None

    def condition(self, node: Node | None, names: Names) -> bool | None:
        """Return whether a condition holds; where that is not known, as decided for a variable."""
        known = self.truth(self.value(node, names))
        if known is not None or self.decision is None or node is None:
            return known
        return self._decide(node, names)

    def _decide(self, node: Node, names: Names) -> bool | None:
        """Return the assumed truth of a condition on flags and on texts such as a mode; None for any other."""
        if node.type == "parenthesized_expression":
            return self.condition(node.named_children[0], names)
        if node.type == "not_operator":
            inner = self.condition(node.child_by_field_name("argument"), names)
            return None if inner is None else not inner
        if node.type == "boolean_operator":
            sides = [self.condition(node.child_by_field_name(side), names) for side in ("left", "right")]
            settles = text_of(node.child_by_field_name("operator")) == "or"
            return settles if settles in sides else None if None in sides else not settles
        value: bool | str | None = self.decision
        variable = node
        if node.type == "comparison_operator" and len(node.named_children) == 2:
            variable, text = node.named_children
            literal = self.value(text, names)
            sign = text_of(node.child_by_field_name("operators"))
            if not (isinstance(literal, LiteralValue) and isinstance(literal.value, str) and sign in ("==", "!=")):
                return None
            equal = (sign == "==") == self.decision
            value = literal.value if equal else None
        if variable.type not in ("identifier", "attribute"):
            return None
        owner = names.get(text_of(variable)) if variable.type == "identifier" else self.value(variable, names)
        if not isinstance(owner, UnknownValue | Parameter):
            return None
        if value is not None:
            self.decided[text_of(variable)] = value
        return self.decision

    @abstractmethod
    def decide_size(self, condition: Node | None, names: Names) -> bool | None:
        """Assume a condition on sizes, or its opposite, so that only such sizes are checked; None for any other."""

    def value(self, node: Node | None, names: Names) -> Value:
        """Return the value of an expression."""
        if node is None:
            return UnknownValue("")
        try:
            value = self._value(node, names)
        except TooComplexError:
            return self.unknown(node)
        return self.unknown(node) if isinstance(value, Size) and len(str(value)) > _LONGEST else value

    def unknown(self, node: Node) -> UnknownValue:
        """Return the value of an expression that only a run determines."""
        text = " ".join(text_of(node).split())
        return UnknownValue(text if len(text) <= 60 else f"{text[:57]}...")

    def _value(self, node: Node, names: Names) -> Value:
        kind = node.type
        if kind == "identifier":
            return self._name(node, names)
        if kind in ("parenthesized_expression", "await"):
            return self.value(node.named_children[0], names)
        if kind in ("tuple", "list", "expression_list"):
            return ValueSequence(tuple(self.value(one, names) for one in node.named_children if one.type != "comment"))
        if kind == "integer":
            return number(int(text_of(node).replace("_", ""), 0))
        if kind in ("true", "false", "none"):
            return LiteralValue({"true": True, "false": False, "none": None}[kind])
        if kind == "attribute":
            return self.attribute(node, names)
        if kind == "subscript":
            return self._subscript(node, names)
        if kind == "call":
            return self.call(node, names)
        if kind == "lambda":
            return LocalFunction(node, names)
        if kind == "dictionary":
            pairs = [one for one in node.named_children if one.type != "comment"]
            keys = [self.value(one.child_by_field_name("key"), names) for one in pairs]
            return dictionary(keys, [self.value(one.child_by_field_name("value"), names) for one in pairs])
        if kind == "binary_operator":
            left, right = (self.value(node.child_by_field_name(side), names) for side in ("left", "right"))
            return self._arithmetic(text_of(node.child_by_field_name("operator")), left, right, node)
        if kind == "unary_operator":
            return self._unary(node, names)
        if kind == "conditional_expression":
            yes, condition, no = node.named_children[:3]
            known = self.condition(condition, names)
            if known is None and self.decision is not None:
                known = self.decide_size(condition, names)
            if known is not None:
                return self.value(yes if known else no, names)
            one, two = self.value(yes, names), self.value(no, names)
            return one if one == two else self.unknown(node)
        if kind == "comparison_operator":
            return self._comparison(node, names)
        if kind in ("not_operator", "boolean_operator"):
            return self._boolean(node, names)
        return self._literal(node)

    def _literal(self, node: Node) -> Value:
        try:
            found = module_constant(node, self.scope)
        except UnknownText:
            return self.unknown(node)
        if isinstance(found, bool | float | str) or found is None:
            return LiteralValue(found)
        if isinstance(found, int):
            return number(found)
        return self.unknown(node)

    def _name(self, node: Node, names: Names) -> Value:
        name = text_of(node)
        if name in names:
            open_ = isinstance(names[name], UnknownValue | Parameter)
            return LiteralValue(self.decided[name]) if open_ and name in self.decided else names[name]
        if name in self.kernels or name in self.classes:
            return DottedName(name)
        if name in self.functions:
            return LocalFunction(self.functions[name], {})
        parts = self.scope.module_value(name)
        if parts is None or len(parts) != 1:
            return DottedName(self.scope.imported_from(name) or name)
        found, module = parts[0]
        if found.type == "function_definition" and module is not self.scope:
            return LocalFunction(found, {}, module=module)
        self._depth += 1
        try:
            if self._depth > MAX_CALLS or module is not self.scope:
                return self._literal(node)
            return self.value(found, {})
        finally:
            self._depth -= 1

    def attribute(self, node: Node, names: Names) -> Value:
        """Return an attribute of an expression."""
        owner_node, name = node.child_by_field_name("object"), text_of(node.child_by_field_name("attribute"))
        dotted = text_of(node)
        if dotted in self.decided:
            return LiteralValue(self.decided[dotted])
        if dotted.startswith("torch.") and name in DTYPES and dotted.count(".") == 1:
            return DataType(DTYPES[name])
        owner = (
            self.tensor(self.value(owner_node, names)) if name in _TENSOR_ATTRIBUTES else self.value(owner_node, names)
        )
        if isinstance(owner, SymbolicTensor):
            found = tensor_attribute(owner, name)
            return found if found is not None else self.unknown(node)
        if isinstance(owner, ObjectValue):
            return attribute_of(owner, name, dotted)
        if isinstance(owner, DottedName):
            resource = compiled_value(name) if owner.text.partition(".")[0] in self.kernels else None
            if resource is not None:
                return resource
            return DottedName(f"{owner.text}.{name}")
        return self.unknown(node)

    def tensor(self, value: Value) -> Value:
        """Return a parameter as the tensor that it is."""
        return self.assumptions.tensor(value.name) if isinstance(value, Parameter) else value

    def number(self, value: Value) -> Value:
        """Return a parameter as the number that it is; one that is known as a tensor as that."""
        if isinstance(value, Parameter) and value.name in self.assumptions.tensors:
            return self.assumptions.tensor(value.name)
        if isinstance(value, Parameter):
            return self.assumptions.number(value.name)
        if isinstance(value, LiteralValue) and isinstance(value.value, bool):
            return number(int(value.value))
        return value

    def shape(self, value: Value) -> Value:
        """Return an argument that is a shape or an extent, with parameters as numbers."""
        if isinstance(value, ValueSequence):
            return ValueSequence(tuple(map(self.number, value.items)))
        return self.number(value)

    def _subscript(self, node: Node, names: Names) -> Value:
        owner = self.value(node.child_by_field_name("value"), names)
        keys = node.children_by_field_name("subscript")
        if len(keys) > 1 or (keys and keys[0].type in ("slice", "ellipsis")):
            owner = self.tensor(owner)
        if isinstance(owner, SymbolicTensor):
            return view(owner, keys, lambda key: self.number(self.value(key, names))) or self.unknown(node)
        key = self.value(keys[0], names) if len(keys) == 1 and keys[0].type != "slice" else None
        if isinstance(owner, ValueSequence):
            if keys and keys[0].type == "slice":
                return slice_of(owner, keys[0]) or self.unknown(node)
            number = key.constant if isinstance(key, Size) else None
            if number is not None and -len(owner.items) <= number < len(owner.items):
                return owner.items[number]
        if isinstance(owner, ObjectValue) and isinstance(key, LiteralValue):
            return attribute_of(owner, str(key.value), text_of(node))
        if isinstance(owner, DottedName) and owner.text in self.kernels:
            return BoundKernel(owner.text, key or ValueSequence(tuple(self.value(one, names) for one in keys)))
        if isinstance(owner, DottedName) and owner.text == "$meta" and isinstance(key, LiteralValue):
            return names.get(f"$meta.{key.value}", named(str(key.value)))
        return self.unknown(node)

    def _unary(self, node: Node, names: Names) -> Value:
        inner = self.number(self.value(node.child_by_field_name("argument"), names))
        if text_of(node.child_by_field_name("operator")) != "-":
            return inner if isinstance(inner, Size) else self.unknown(node)
        if isinstance(inner, LiteralValue) and isinstance(inner.value, float):
            return LiteralValue(-inner.value)
        return -inner if isinstance(inner, Size) else self.unknown(node)

    def _arithmetic(self, sign: str, left: Value, right: Value, node: Node) -> Value:
        left, right = self.number(left), self.number(right)
        if isinstance(left, Size) and isinstance(right, Size):
            ends = left.constant, right.constant
            if sign in _OPERATIONS:
                return _OPERATIONS[sign](left, right)
            if ends[0] is not None and ends[1] is not None and 0 <= ends[1] < 40 and sign in ("**", "<<", ">>"):
                return number({"**": ends[0] ** ends[1], "<<": ends[0] << ends[1], ">>": ends[0] >> ends[1]}[sign])
            if sign == "/":
                return Quotient(1.0, left, right)  # a floating-point argument, whose value no size depends on
            return self.unknown(node)
        if isinstance(left, ValueSequence) and isinstance(right, ValueSequence) and sign == "+":
            return ValueSequence((*left.items, *right.items))
        if isinstance(left, ValueSequence) and isinstance(right, Size) and sign == "*":
            count = right.constant
            return ValueSequence(left.items * count) if count is not None and 0 <= count < 9 else self.unknown(node)
        for one in (left, right):
            if isinstance(one, SymbolicTensor):
                other = right if one is left else left
                if isinstance(other, SymbolicTensor):
                    return self._broadcast(one, other) or self.unknown(node)
                return copied(one, one.dtype)
        numbers = [one for one in (left, right) if isinstance(one, LiteralValue) and isinstance(one.value, float)]
        if numbers and all(isinstance(one, LiteralValue | Size) for one in (left, right)):
            return LiteralValue(1.0)
        return self.unknown(node)

    def _broadcast(self, one: SymbolicTensor, other: SymbolicTensor) -> SymbolicTensor | None:
        """Return the result of an operation on two tensors, if the extents of one are the last ones of the other."""
        long, short = (one, other) if len(one.shape) >= len(other.shape) else (other, one)
        last = [self.assumptions.resolved(extent) for extent in long.shape[len(long.shape) - len(short.shape) :]]
        if last != [self.assumptions.resolved(extent) for extent in short.shape]:
            return None
        return copied(long, long.dtype)

    def _comparison(self, node: Node, names: Names) -> Value:
        if len(node.named_children) != 2:
            return self.unknown(node)
        sign = text_of(node.child_by_field_name("operators"))
        left, right = (self.value(one, names) for one in node.named_children)
        holds = compared(sign, left, right)
        return self.unknown(node) if holds is None else LiteralValue(holds)

    def _boolean(self, node: Node, names: Names) -> Value:
        if node.type == "not_operator":
            known = self.truth(self.value(node.child_by_field_name("argument"), names))
            return self.unknown(node) if known is None else LiteralValue(not known)
        if self.decision is not None and (decided := self._decide(node, names)) is not None:
            return LiteralValue(decided)
        left, right = (self.value(node.child_by_field_name(side), names) for side in ("left", "right"))
        known, conjunction = self.truth(left), text_of(node.child_by_field_name("operator")) == "and"
        if known is None:
            other = self.truth(right)
            return LiteralValue(other) if other is not None and other != conjunction else self.unknown(node)
        return right if known == conjunction else left
