"""Python as the representation of host code: expressions and statements of one function.

A name of an imported module is written out: ``cp.empty_like`` is ``cupy::empty_like``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tree_sitter import Node

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.program import FunctionBody
from gpuemu_lsp.engine.source.python.syntax import call_arguments, descendants, enclosing_function, text_of

ARRAY = "torch::Tensor"
_OPERATORS = {"/": "real/", "and": "&&", "or": "||"}
CASTS = {
    **dict.fromkeys(("int", "int32", "intc", "c_int", "c_int32", "int16", "int8"), "int"),
    **dict.fromkeys(("int64", "intp", "c_int64"), "int64_t"),
    **dict.fromkeys(("uint32", "uintc", "c_uint", "c_uint32", "uint16", "uint8"), "unsigned int"),
    **dict.fromkeys(("uint64", "size_t", "c_size_t"), "size_t"),
    **dict.fromkeys(("float", "float64", "c_double"), "double"),
    **dict.fromkeys(("float32", "c_float"), "float"),
    "float16": "half",
    **dict.fromkeys(("bool", "bool_"), "bool"),
}
"""Types that are called to convert a number."""
_WHOLE = ("ceil", "floor", "trunc")
"""Functions of ``math`` whose result is an integer."""
_ANNOTATIONS = {"int": "int", "float": "double", "bool": "bool"}
_ARRAYS = frozenset({"Tensor", "ndarray", "GPUArray", "DeviceAllocation", "ArrayLike"})
_IGNORED = frozenset({
    "comment", "pass_statement", "import_statement", "import_from_statement", "global_statement", "class_definition",
    "nonlocal_statement", "delete_statement",
})  # fmt: skip
_MEANT = ("identifier", "attribute", "call")
_LISTS = frozenset({"tuple", "list", "expression_list", "pattern_list", "tuple_pattern", "list_pattern"})
_ASSIGNING = (
    "assignment", "augmented_assignment", "for_statement", "named_expression", "as_pattern_target",
    "function_definition",
)  # fmt: skip
_COMPARISONS = frozenset({"<", "<=", ">", ">=", "==", "!="})
_VALUES = frozenset({"assignment", "argument_list", "keyword_argument", "return_statement", "parenthesized_expression"})
"""Code around an expression that takes its value, not only its truth."""
_TRUTHS = frozenset({"comparison_operator", "not_operator", "boolean_operator", "true", "false"})
"""Expressions whose value is a truth value."""


@dataclass(frozen=True, slots=True)
class LaunchExpressions:
    """The expressions of a launch: ``kernel`` is its name in device code."""

    kernel: ir.NameUse
    grid: Node
    block: Node
    shared: Node | None
    arguments: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class PythonLowering:
    """Translation of one item, which begins at a line of its module.

    ``modules`` are the names that stand for classes, imported modules and what is imported from them. ``launch_of``
    returns the expressions of a call that launches a kernel, and None for any other call. ``meaning`` returns what a
    name, an attribute or a call stands for, and None for one that is lowered as it is written.
    """

    launch_of: Callable[[Node], LaunchExpressions | None]
    modules: Mapping[str, str] = field(default_factory=dict)
    line: int = 0
    meaning: Callable[[Node], ir.Expression | None] = lambda node: None
    this: str = ""
    """The first parameter of a method with an object."""

    def _at(self, node: Node) -> ir.Span:
        (line, column), (end_line, end_column) = node.start_point, node.end_point
        return ir.Span(line - self.line, column, end_line - self.line, end_column)

    # ---- expressions

    def expression(self, node: Node | None) -> ir.Expression:
        """Return an expression."""
        if node is None:
            return ir.UnknownCode(harmless=True)
        known = self.meaning(node) if node.type in _MEANT else None
        lower = _EXPRESSIONS.get(node.type, PythonLowering._unknown)
        return lower(self, node) if known is None else known

    def _optional(self, node: Node | None) -> ir.Expression | None:
        return None if node is None else self.expression(node)

    def _field(self, node: Node, name: str) -> ir.Expression:
        return self.expression(node.child_by_field_name(name))

    def _expressions(self, nodes: Iterable[Node]) -> tuple[ir.Expression, ...]:
        return tuple(self.expression(node) for node in nodes if node.type != "comment")

    def _unknown(self, node: Node) -> ir.Expression:
        """Return code that may write to the memory of all variables in it; the calls in it are made."""
        parts: list[ir.Expression] = []
        pending = list(reversed(node.named_children))
        while pending:
            inner = pending.pop()
            if inner.type in ("identifier", "call"):
                parts.append(self.expression(inner))
            elif inner.type != "lambda":
                pending += reversed(inner.named_children)
        return ir.UnknownCode(tuple(parts), span=self._at(node))

    def _constant(self, node: Node) -> ir.Expression:
        code, span = text_of(node).replace("_", ""), self._at(node)
        named: dict[str, bool | None] = {"true": True, "false": False, "none": None}
        if node.type in named:
            return ir.Constant(named[node.type], span=span)
        try:
            return ir.Constant(int(code, 0) if node.type == "integer" else float(code), span=span)
        except ValueError:
            return ir.UnknownCode(harmless=True, span=span)

    def _string(self, node: Node) -> ir.Expression:
        parts = [child for child in node.named_children if child.type == "string_content"]
        plain = len(parts) == 1 and not parts[0].named_children
        return ir.Constant(text_of(parts[0]), span=self._at(node)) if plain else self._unknown(node)

    def _name(self, node: Node) -> ir.Expression:
        name = text_of(node)
        return ir.NameUse("this" if name == self.this else self.modules.get(name, name), span=self._at(node))

    def _attribute(self, node: Node) -> ir.Expression:
        owner, name = self._field(node, "object"), text_of(node.child_by_field_name("attribute"))
        if isinstance(owner, ir.NameUse) and self._is_module(node):
            return ir.NameUse(f"{owner.name}::{name}", span=self._at(node))
        return PythonLowering._spread_last(owner, lambda inner: ir.FieldAccess(inner, name, span=self._at(node)))

    def _is_module(self, node: Node | None) -> bool:
        """Return whether the first part of a dotted name is a module."""
        while node is not None and node.type == "attribute":
            node = node.child_by_field_name("object")
        return node is not None and node.type == "identifier" and text_of(node) in self.modules

    def _inner(self, node: Node) -> ir.Expression:
        return self.expression(node.named_children[0]) if node.named_children else self._unknown(node)

    def _list(self, node: Node) -> ir.ListValue:
        return ir.ListValue(self._expressions(node.named_children), span=self._at(node))

    def _spread(self, node: Node) -> ir.Expression:
        return ir.Spread(self._inner(node), span=self._at(node))

    def _dictionary(self, node: Node) -> ir.Expression:
        """Return a dictionary whose keys are text."""
        pairs = [child for child in node.named_children if child.type != "comment"]
        keys = [self._field(pair, "key") if pair.type == "pair" else None for pair in pairs]
        names = tuple(key.value for key in keys if isinstance(key, ir.Constant) and isinstance(key.value, str))
        if len(names) < len(pairs):
            return self._unknown(node)
        return ir.ListValue(tuple(self._field(pair, "value") for pair in pairs), names, span=self._at(node))

    def _slice(self, node: Node) -> ir.Expression:
        """Return ``slice(begin, end)`` or ``slice(begin, end, step)``."""
        ends: list[ir.Expression] = [ir.Constant(None)]
        for child in node.children:
            if child.type == ":":
                ends.append(ir.Constant(None))
            elif child.is_named:
                ends[-1] = self.expression(child)
        return ir.CallExpression(ir.NameUse("slice"), tuple(ends), span=self._at(node))

    def _ellipsis(self, node: Node) -> ir.Expression:
        return ir.CallExpression(ir.NameUse("Ellipsis"), (), span=self._at(node))

    def _boolean(self, node: Node) -> ir.Expression:
        """Return a conjunction or disjunction; of ``size or 128`` the value of one side."""
        right, outer = node.child_by_field_name("right"), node.parent
        if right is None or right.type in _TRUTHS or outer is None or outer.type not in _VALUES:
            return self._binary(node)
        first, second = self._field(node, "left"), self.expression(right)
        then, other = (first, second) if text_of(node.child_by_field_name("operator")) == "or" else (second, first)
        return ir.Conditional(first, then, other, span=self._at(node))

    def _binary(self, node: Node) -> ir.Expression:
        operator = text_of(node.child_by_field_name("operator"))
        left, right, span = self._field(node, "left"), self._field(node, "right"), self._at(node)
        return ir.BinaryOperation(_OPERATORS.get(operator, operator), left, right, span=span)

    def _unary(self, node: Node) -> ir.Expression:
        operator = "!" if node.type == "not_operator" else text_of(node.child_by_field_name("operator"))
        return ir.UnaryOperation(operator, self._field(node, "argument"), span=self._at(node))

    def _comparison(self, node: Node) -> ir.Expression:
        """Return a comparison; ``a < b < c`` is the conjunction of two."""
        signs = [text_of(child) for child in node.children_by_field_name("operators")]
        sides, span = self._expressions(node.named_children), self._at(node)
        named = {"is": "==", "is not": "!="}
        operators = [named.get(sign, sign) for sign in signs]
        if operators in (["in"], ["not in"]) and len(sides) == 2:
            contained = ir.BinaryOperation("in", *sides, span=span)
            return contained if operators == ["in"] else ir.UnaryOperation("!", contained, span=span)
        if len(sides) != len(signs) + 1 or not _COMPARISONS.issuperset(operators):
            return self._unknown(node)
        whole: ir.Expression | None = None
        for left, operator, right in zip(sides, operators, sides[1:], strict=False):
            part = ir.BinaryOperation(operator, left, right, span=span)
            whole = part if whole is None else ir.BinaryOperation("&&", whole, part, span=span)
        return whole or self._unknown(node)

    def _conditional(self, node: Node) -> ir.Expression:
        if len(node.named_children) != 3:
            return self._unknown(node)
        then, condition, other = self._expressions(node.named_children)
        return ir.Conditional(condition, then, other, span=self._at(node))

    def _subscript(self, node: Node) -> ir.Expression:
        base, index = self._field(node, "value"), self._index(node)
        return PythonLowering._spread_last(base, lambda inner: ir.Subscript(inner, index, span=self._at(node)))

    def _index(self, node: Node) -> ir.Expression:
        keys = [key for key in node.children_by_field_name("subscript") if key.is_named]
        return self.expression(keys[0]) if len(keys) == 1 else ir.ListValue(self._expressions(keys))

    def _call(self, node: Node) -> ir.Expression:
        span, launch = self._at(node), self.launch_of(node)
        if launch is not None:
            grid, block = self.expression(launch.grid), self.expression(launch.block)
            shared = self._optional(launch.shared)
            return ir.Launch(launch.kernel, grid, block, shared, self._expressions(launch.arguments), span=span)
        positional, named = self._arguments(node)
        function = node.child_by_field_name("function")
        if function is not None and function.type == "subscript":
            kernel, grid = self._field(function, "value"), self._index(function)
            return ir.Launch(kernel, grid, ir.Constant(1), None, positional, named, span=span)
        callee = self.expression(function)
        grids = [value for name, value in named if name == "grid"]
        if isinstance(callee, ir.FieldAccess) and callee.name == "run" and grids:
            others = tuple(each for each in named if each[0] != "grid")
            return ir.Launch(callee.base, grids[0], ir.Constant(1), None, positional, others, span=span)
        base = callee.base if isinstance(callee, ir.NameUse) else ""
        if base == "super":
            return ir.UnknownCode(harmless=True, span=span)
        if isinstance(callee, ir.NameUse) and base in _WHOLE and callee.name == f"math::{base}":
            whole = ir.CallExpression(callee, positional, span=span) if base == "ceil" else positional[0]
            return ir.Cast("int64_t", whole, span=span)
        if base in CASTS and len(positional) == 1 and not named:
            return ir.Cast(CASTS[base], positional[0], span=span)
        return PythonLowering._spread_last(callee, lambda inner: ir.CallExpression(inner, positional, named, span=span))

    def _arguments(self, call: Node) -> tuple[tuple[ir.Expression, ...], tuple[tuple[str, ir.Expression], ...]]:
        """Return the arguments by position and by name; the name of ``**options`` is ``**``."""
        listed = call.child_by_field_name("arguments")
        children = listed.named_children if listed is not None else ()
        named: list[tuple[str, ir.Expression]] = []
        for child in children:
            if child.type == "keyword_argument":
                named.append((text_of(child.child_by_field_name("name")), self._field(child, "value")))
            elif child.type == "dictionary_splat":
                named.append(("**", self._inner(child)))
        by_name = ("keyword_argument", "dictionary_splat")
        return self._expressions(child for child in children if child.type not in by_name), tuple(named)

    def _named_expression(self, node: Node) -> ir.Expression:
        return ir.Assign(self._field(node, "name"), self._field(node, "value"), span=self._at(node))

    def _lambda(self, node: Node) -> ir.Expression:
        body = node.child_by_field_name("body")
        value = ir.ReturnStatement(self._optional(body), span=self._at(node))
        return ir.LambdaValue(self.parameters(node), ir.Block((value,)), span=self._at(node))

    def _local_function(self, node: Node) -> Iterator[ir.Statement]:
        """Yield the assignment of a function to its name; those of a module are among its functions."""
        if enclosing_function(node) is None:
            return
        inner = self.function(node)
        if inner.statements is not None:
            value = ir.LambdaValue(inner.parameters, inner.statements, span=self._at(node))
            yield ir.Assign(self._field(node, "name"), value, span=self._at(node))

    def _decorated(self, node: Node) -> Iterator[ir.Statement]:
        inner = node.child_by_field_name("definition")
        if inner is not None:
            yield from self._statement(inner)

    @staticmethod
    def _spread_last(node: ir.Expression, use: Callable[[ir.Expression], ir.Expression]) -> ir.Expression:
        """Return the spread of what is made of an expression: the parser reads ``*a.b`` as ``(*a).b``."""
        return ir.Spread(use(node.value)) if isinstance(node, ir.Spread) else use(node)

    # ---- statements

    def statements(self, nodes: Iterable[Node]) -> tuple[ir.Statement, ...]:
        """Return statements."""
        return tuple(statement for node in nodes for statement in self._statement(node))

    def _statement(self, node: Node) -> Iterator[ir.Statement]:
        if node.type in _IGNORED:
            return
        lower = _STATEMENTS.get(node.type)
        yield from (self._unknown(node),) if lower is None else lower(self, node)

    def _block(self, node: Node | None) -> ir.Block | None:
        """Return the statements of a block, whose variables are those of the function."""
        if node is None:
            return None
        return ir.Block(self.statements(node.named_children), scope=False, span=self._at(node))

    def _expression_statement(self, node: Node) -> Iterator[ir.Statement]:
        for child in node.named_children:
            if child.type == "assignment":
                yield from self._assignment(child)
            elif child.type == "augmented_assignment":
                operator = text_of(child.child_by_field_name("operator"))[:-1]
                target, value = self._field(child, "left"), self._field(child, "right")
                yield ir.Assign(target, value, _OPERATORS.get(operator, operator), span=self._at(child))
            elif child.type not in ("string", "ellipsis"):
                yield self.expression(child)

    def _assignment(self, node: Node) -> Iterator[ir.Statement]:
        target, value = node.child_by_field_name("left"), node.child_by_field_name("right")
        if target is None or value is None:
            return
        if value.type == "assignment":
            yield from self._assignment(value)
            value = value.child_by_field_name("left") or value
        yield ir.Assign(self.expression(target), self.expression(value), span=self._at(node))

    def _return(self, node: Node) -> Iterator[ir.Statement]:
        value = self.expression(node.named_children[0]) if node.named_children else None
        yield ir.ReturnStatement(value, span=self._at(node))

    def _jump(self, node: Node) -> Iterator[ir.Statement]:
        kind = node.type.partition("_")[0]
        yield ir.JumpStatement("exit" if kind == "raise" else kind, span=self._at(node))

    def _assert(self, node: Node) -> Iterator[ir.Statement]:
        for part in PythonLowering._conjuncts(node.named_children[0]) if node.named_children else ():
            # Of which type elements are is the caller's choice, also where the code expects one.
            named = {text_of(each.child_by_field_name("attribute")) for each in descendants(part, "attribute")}
            if "dtype" not in named:
                yield ir.CallExpression(ir.NameUse("assert"), (self.expression(part),), span=self._at(part))

    def _if(self, node: Node) -> Iterator[ir.Statement]:
        other: ir.Statement | None = None
        for clause in reversed(node.children_by_field_name("alternative")):
            if clause.type == "else_clause":
                other = self._block(clause.child_by_field_name("body"))
            else:
                other = self._branch(clause, other)
        yield self._branch(node, other)

    def _branch(self, node: Node, other: ir.Statement | None) -> ir.IfStatement:
        then = self._block(node.child_by_field_name("consequence"))
        return ir.IfStatement(self._field(node, "condition"), then, other, span=self._at(node))

    def _while(self, node: Node) -> Iterator[ir.Statement]:
        body = self._block(node.child_by_field_name("body"))
        yield ir.Loop((), self._field(node, "condition"), None, body, span=self._at(node))

    def _for(self, node: Node) -> Iterator[ir.Statement]:
        target, source = node.child_by_field_name("left"), node.child_by_field_name("right")
        body, span = self._block(node.child_by_field_name("body")), self._at(node)
        if target is None or source is None:
            return
        ends = call_arguments(source)[0] if source.type == "call" else []
        ranged = source.type == "call" and text_of(source.child_by_field_name("function")) == "range"
        if target.type == "identifier" and ranged and 1 <= len(ends) <= 3:
            name, values = self.expression(target), self._expressions(ends)
            first, last = (ir.Constant(0), values[0]) if len(values) == 1 else values[:2]
            step = values[2] if len(values) == 3 else ir.Constant(1)
            start = (ir.Assign(name, first, span=span),)
            condition = ir.BinaryOperation("<", name, last, span=span)
            yield ir.Loop(start, condition, ir.Assign(name, step, "+", span=span), body, span=span)
        else:
            names = tuple(map(text_of, descendants(target, "identifier")))
            yield ir.RangeLoop("auto", names, self.expression(source), body, span=span)

    def _body(self, node: Node) -> Iterator[ir.Statement]:
        """Yield the statements of ``with`` and ``try``."""
        for child in node.named_children:
            if child.type == "block":
                yield from self.statements(child.named_children)

    def _match(self, node: Node) -> Iterator[ir.Statement]:
        cases = []
        body = node.child_by_field_name("body")
        for case in body.named_children if body is not None else ():
            patterns = [child for child in case.named_children if child.type == "case_pattern"]
            inner = patterns[0].named_children[0] if patterns and patterns[0].named_children else None
            consequence = case.child_by_field_name("consequence")
            statements = self.statements(consequence.named_children if consequence is not None else ())
            either = inner.named_children if inner is not None and inner.type == "union_pattern" else [inner]
            labels = [None if each is None or text_of(each) == "_" else self.expression(each) for each in either]
            # The patterns of `case 1 | 2` are cases of which all but the last continue with the next one.
            cases += [ir.SwitchCase(label, (), span=self._at(case)) for label in labels[:-1]]
            cases.append(ir.SwitchCase(labels[-1], (*statements, ir.JumpStatement("break")), span=self._at(case)))
        subject = node.child_by_field_name("subject")
        yield ir.SwitchStatement(self.expression(subject), tuple(cases), span=self._at(node))

    @staticmethod
    def _conjuncts(node: Node) -> Iterator[Node]:
        """Yield the operands of ``and``; any other expression alone."""
        if node.type == "parenthesized_expression" and node.named_children:
            yield from PythonLowering._conjuncts(node.named_children[0])
        elif node.type == "boolean_operator" and text_of(node.child_by_field_name("operator")) == "and":
            for side in ("left", "right"):
                inner = node.child_by_field_name(side)
                yield from PythonLowering._conjuncts(inner) if inner is not None else ()
        else:
            yield node

    # ---- functions

    def parameters(self, node: Node, types: Mapping[str, str] | None = None) -> tuple[ir.HostParameter, ...]:
        """Return the parameters of a function; ``types`` are those of parameters that its code shows."""
        listed = node.child_by_field_name("parameters")
        parameters: list[ir.HostParameter] = []
        for child in listed.named_children if listed is not None else ():
            inner = child.child_by_field_name("name") or next(iter(child.named_children), None)
            name = text_of(child if child.type == "identifier" else inner)
            if inner is not None and inner.type.startswith(("list_splat", "dictionary_splat")):
                continue
            if name in (self.this, "self", "cls") and not parameters:
                continue
            if child.type in ("identifier", "typed_parameter", "default_parameter", "typed_default_parameter"):
                default = self._optional(child.child_by_field_name("value"))
                type_ = (types or {}).get(name) or _annotated(text_of(child.child_by_field_name("type")))
                parameters.append(ir.HostParameter(name, type_, default=default))
        return tuple(parameters)

    def function(self, node: Node, types: Mapping[str, str] | None = None) -> FunctionBody:
        """Return what a function, or the statements of a module, do; its variables are declared at its begin."""
        body = node.child_by_field_name("body") or node
        parameters = self.parameters(node, types)
        given = {self.this, *(parameter.name for parameter in parameters)}
        names = [name for name in dict.fromkeys(assigned_names(node)) if name not in given]
        declared = tuple(ir.Declare(name, "auto") for name in names)
        statements = ir.Block((*declared, *self.statements(body.named_children)), span=self._at(body))
        listed = node.child_by_field_name("parameters")
        splats = next(descendants(listed, "list_splat_pattern", "dictionary_splat_pattern"), None) if listed else None
        return FunctionBody(parameters, statements, variadic=splats is not None)


def _annotated(annotation: str) -> str:
    """Return the type that an annotation says: ``auto`` for one that is not of a number or an array."""
    return ARRAY if annotation.rpartition(".")[2] in _ARRAYS else _ANNOTATIONS.get(annotation, "auto")


def assigned_names(function: Node) -> Iterator[str]:
    """Yield the variables that a function assigns, but for those of the functions in it."""
    for node in descendants(function, *_ASSIGNING):
        if node.id == function.id:
            continue
        home = enclosing_function(node)
        if (home is None) != (function.type == "module") or (home is not None and home.id != function.id):
            continue
        if home is None and node.type == "function_definition":
            continue
        target = node.child_by_field_name("left") or node.child_by_field_name("name") or node
        if target.type in _LISTS or target.type in ("identifier", "as_pattern_target"):
            yield from (text_of(name) for name in descendants(target, "identifier") if _is_variable(name))


def _is_variable(name: Node) -> bool:
    """Return whether an assigned name is a variable, not a part of a place such as ``a.b`` or ``a[b]``."""
    return name.parent is None or name.parent.type not in ("attribute", "subscript")


_EXPRESSIONS: dict[str, Callable[[PythonLowering, Node], ir.Expression]] = {
    **dict.fromkeys(("integer", "float", "true", "false", "none"), PythonLowering._constant),
    "string": PythonLowering._string,
    "identifier": PythonLowering._name,
    "attribute": PythonLowering._attribute,
    "parenthesized_expression": PythonLowering._inner,
    **dict.fromkeys(_LISTS, PythonLowering._list),
    **dict.fromkeys(("list_splat", "list_splat_pattern"), PythonLowering._spread),
    "dictionary": PythonLowering._dictionary,
    "slice": PythonLowering._slice,
    "ellipsis": PythonLowering._ellipsis,
    "binary_operator": PythonLowering._binary,
    "boolean_operator": PythonLowering._boolean,
    **dict.fromkeys(("unary_operator", "not_operator"), PythonLowering._unary),
    "comparison_operator": PythonLowering._comparison,
    "conditional_expression": PythonLowering._conditional,
    "subscript": PythonLowering._subscript,
    "call": PythonLowering._call,
    "named_expression": PythonLowering._named_expression,
    "lambda": PythonLowering._lambda,
}
_STATEMENTS: dict[str, Callable[[PythonLowering, Node], Iterator[ir.Statement]]] = {
    "expression_statement": PythonLowering._expression_statement,
    "function_definition": PythonLowering._local_function,
    "decorated_definition": PythonLowering._decorated,
    "return_statement": PythonLowering._return,
    **dict.fromkeys(("raise_statement", "break_statement", "continue_statement"), PythonLowering._jump),
    "assert_statement": PythonLowering._assert,
    "if_statement": PythonLowering._if,
    "while_statement": PythonLowering._while,
    "for_statement": PythonLowering._for,
    **dict.fromkeys(("with_statement", "try_statement"), PythonLowering._body),
    "match_statement": PythonLowering._match,
}
