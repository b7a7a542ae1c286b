"""C++ as the representation of host code: expressions, statements and declarations of one item.

Function-like macros are expanded here, so that the representation has none; what they expand to has the range of their
use. Macros without parameters are constants, which the interpreter looks up by name.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from tree_sitter import Node

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.cpp.loop_macros import LOOPS_OF_PYTORCH, with_body
from gpuemu_lsp.engine.hostcode.cpp.syntax import (
    declared_name,
    expression_of,
    has_arrow,
    inner_declarator,
    statements_of,
    text,
)
from gpuemu_lsp.engine.hostcode.program import FunctionBody, MemberVariable
from gpuemu_lsp.engine.source.preprocessor.expansion import substitute
from gpuemu_lsp.engine.source.preprocessor.lexer import split_top
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable

_INTEGER = re.compile(r"(0[xX][0-9a-fA-F']+|0[bB][01']+|[\d']+)[uUlLzZ]*$")
_CASTS = frozenset({"static_cast", "reinterpret_cast", "const_cast", "dynamic_cast", "bit_cast"})
_TYPES = frozenset({"primitive_type", "type_identifier", "sized_type_specifier"})
_NAMES = frozenset({"identifier", "type_identifier", "field_identifier", "qualified_identifier", "template_function"})
_OPERATORS = {"and": "&&", "or": "||", "not": "!"}
_PARAMETERS = ("parameter_declaration", "optional_parameter_declaration")
_POINTERS = frozenset({"pointer_declarator", "array_declarator", "abstract_pointer_declarator"})
_SPLICED = frozenset({"ERROR", "labeled_statement", "attributed_statement"})


@dataclass(frozen=True, slots=True)
class Lowering:
    """Translation of the syntax trees of one item, which begins at a line of its file.

    ``functions`` are names that the program defines as functions, which no macro replaces. ``span`` is the range of the
    macro that is expanded, if one is, and ``expanding`` the names of these.
    """

    macros: MacroTable
    is_function: Callable[[str], bool]
    line: int = 0
    span: ir.Span | None = None
    expanding: frozenset[str] = frozenset()

    def _at(self, node: Node) -> ir.Span:
        if self.span is not None:
            return self.span
        (line, column), (end_line, end_column) = node.start_point, node.end_point
        return ir.Span(line - self.line, column, end_line - self.line, end_column)

    # ---- expressions

    def expression(self, node: Node | None) -> ir.Expression:
        """Return an expression."""
        if node is None:
            return ir.UnknownCode(harmless=True)
        lower = _EXPRESSIONS.get(node.type)
        if lower is not None:
            return lower(self, node)
        parts = tuple(self.expression(child) for child in node.named_children if "expression" in child.type)
        return ir.UnknownCode(parts, harmless=True, span=self._at(node))

    def _optional(self, node: Node | None) -> ir.Expression | None:
        return None if node is None else self.expression(node)

    def _field(self, node: Node, name: str) -> ir.Expression:
        return self.expression(node.child_by_field_name(name))

    def _expressions(self, nodes: Iterable[Node]) -> tuple[ir.Expression, ...]:
        return tuple(self.expression(node) for node in nodes if node.type != "comment")

    def _number(self, node: Node) -> ir.Expression:
        return self._literal(text(node), self._at(node))

    def _literal(self, code: str, span: ir.Span) -> ir.Expression:
        if code.startswith("-"):
            return ir.UnaryOperation("-", self._literal(code[1:].strip(), span), span=span)
        match = _INTEGER.match(code)
        digits = match[1].replace("'", "") if match is not None else ""
        try:
            if digits[:2] not in ("0x", "0X", "0b", "0B") and len(digits) > 1 and digits[0] == "0":
                return ir.Constant(int(digits, 8), span=span)
            if digits:
                return ir.Constant(int(digits, 0), span=span)
            return ir.Constant(float(code.rstrip("fFlL").replace("'", "")), span=span)
        except ValueError:
            return ir.UnknownCode(harmless=True, span=span)

    def _constant(self, node: Node) -> ir.Expression:
        value = {"true": True, "false": False}.get(node.type)
        return ir.Constant(text(node).strip('"') if node.type == "string_literal" else value, span=self._at(node))

    def _name(self, node: Node) -> ir.NameUse:
        name, arguments = _parts(node)
        given = None if arguments is None else tuple(map(text, arguments.named_children))
        return ir.NameUse(name, given, span=self._at(node))

    def _last(self, node: Node) -> ir.Expression:
        """Return the expression in parentheses; of several with commas all of them."""
        parts = self._expressions(node.named_children)
        return parts[0] if len(parts) == 1 else ir.CommaExpression(parts, span=self._at(node))

    def _condition(self, node: Node | None) -> ir.Expression:
        """Return a condition without the declarations in it."""
        inner = node.child_by_field_name("value") if node is not None and node.type == "condition_clause" else node
        return ir.UnknownCode() if inner is not None and inner.type == "declaration" else self.expression(inner)

    def _binary(self, node: Node) -> ir.Expression:
        operator = text(node.child_by_field_name("operator"))
        left, right = self._field(node, "left"), self._field(node, "right")
        return ir.BinaryOperation(_OPERATORS.get(operator, operator), left, right, span=self._at(node))

    def _unary(self, node: Node) -> ir.Expression:
        operator = text(node.child_by_field_name("operator"))
        return ir.UnaryOperation(_OPERATORS.get(operator, operator), self._field(node, "argument"), span=self._at(node))

    def _pointer(self, node: Node) -> ir.Expression:
        operand = self._field(node, "argument")
        if text(node.child_by_field_name("operator")) == "&":
            return ir.AddressOf(operand, span=self._at(node))
        return ir.Dereference(operand, span=self._at(node))

    def _assignment(self, node: Node) -> ir.Expression:
        operator = text(node.child_by_field_name("operator"))[:-1]
        return ir.Assign(self._field(node, "left"), self._field(node, "right"), operator, span=self._at(node))

    def _update(self, node: Node) -> ir.Expression:
        code, span = text(node), self._at(node)
        operator = "+" if "++" in code else "-"
        before = not code.startswith(("++", "--"))
        return ir.Assign(self._field(node, "argument"), ir.Constant(1, span=span), operator, before, span=span)

    def _conditional(self, node: Node) -> ir.Expression:
        then, other = self._field(node, "consequence"), self._field(node, "alternative")
        return ir.Conditional(self._condition(node.child_by_field_name("condition")), then, other, span=self._at(node))

    def _cast(self, node: Node) -> ir.Expression:
        return ir.Cast(text(node.child_by_field_name("type")), self._field(node, "value"), span=self._at(node))

    def _size_of(self, node: Node) -> ir.Expression:
        type_, value = node.child_by_field_name("type"), node.child_by_field_name("value")
        if type_ is not None:
            return ir.SizeOf(text(type_), span=self._at(node))
        return ir.SizeOf("", self._optional(value), span=self._at(node))

    def _subscript(self, node: Node) -> ir.Expression:
        listed = node.child_by_field_name("indices")
        first = listed.named_children[0] if listed is not None and listed.named_children else None
        return ir.Subscript(self._field(node, "argument"), self.expression(first), span=self._at(node))

    def _member(self, node: Node) -> ir.Expression:
        member = node.child_by_field_name("field")
        name, arguments = _parts(member) if member is not None else ("", None)
        given = None if arguments is None else tuple(map(text, arguments.named_children))
        return ir.FieldAccess(self._field(node, "argument"), name, has_arrow(node), given, span=self._at(node))

    def _list(self, node: Node) -> ir.ListValue:
        items: list[ir.Expression] = []
        names: list[str] = []
        for child in node.named_children:
            pair = child.type == "initializer_pair"
            names.append(text(child.child_by_field_name("designator")).strip(". ") if pair else "")
            items.append(self._field(child, "value") if pair else self.expression(child))
        named = tuple(names) if any(names) else ()
        return ir.ListValue(tuple(items), named, node.type == "argument_list", span=self._at(node))

    def _compound(self, node: Node) -> ir.Expression:
        value = self._field(node, "value")
        listed = value if isinstance(value, ir.ListValue) else ir.ListValue((value,))
        return ir.Construct(text(node.child_by_field_name("type")), listed, span=self._at(node))

    def _new(self, node: Node) -> ir.Expression:
        declarator, span = node.child_by_field_name("declarator"), self._at(node)
        length = (self._field(declarator, "length"),) if declarator is not None else ()
        callee = ir.NameUse("new", (text(node.child_by_field_name("type")),), span=span)
        return ir.CallExpression(callee, length, span=span)

    def _lambda(self, node: Node) -> ir.Expression:
        declarator = node.child_by_field_name("declarator")
        listed = declarator.child_by_field_name("parameters") if declarator is not None else None
        body = self._block(node.child_by_field_name("body"))
        return ir.LambdaValue(self.parameters(listed), body, span=self._at(node))

    def _type(self, node: Node) -> ir.Expression:
        inner = expression_of(text(node))
        if inner is None or inner.type == "type_descriptor":
            return ir.NameUse(text(node), span=self._at(node))
        return replace(self, span=self._at(node)).expression(inner)

    # ---- calls

    def _call(self, node: Node) -> ir.Expression:
        callee, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        configuration = next((child for child in node.named_children if child.type == "kernel_call_syntax"), None)
        given = [child for child in listed.named_children if child.type != "comment"] if listed is not None else []
        span = self._at(node)
        if configuration is not None:
            sizes = self._expressions(configuration.named_children)
            if len(sizes) < 2:
                return ir.UnknownCode(self._expressions(given), span=span)
            shared = sizes[2] if len(sizes) > 2 else None
            return ir.Launch(self.expression(callee), sizes[0], sizes[1], shared, self._expressions(given), span=span)
        if callee is not None and callee.type in _TYPES:
            return ir.Cast(text(callee), self.expression(given[0]), span=span) if given else ir.Constant(0, span=span)
        name = self._name(callee) if callee is not None and callee.type in _NAMES else None
        if name is not None and name.base in _CASTS and name.arguments and given:
            return ir.Cast(", ".join(name.arguments), self.expression(given[0]), span=span)
        expansion = self._expansion(node)
        if isinstance(expansion, ir.Block):
            return ir.CallExpression(ir.LambdaValue((), expansion, span=span), (), span=span)
        if expansion is not None:
            return expansion
        return ir.CallExpression(name or self.expression(callee), self._expressions(given), span=span)

    def _expansion(self, node: Node) -> ir.Expression | ir.Block | None:
        """Return what the invocation of a macro stands for; None if there is no such macro."""
        callee, listed = node.child_by_field_name("function"), node.child_by_field_name("arguments")
        if node.type != "call_expression" or callee is None or callee.type not in _NAMES or listed is None:
            return None
        name = self._name(callee).base
        defined = self.macros.definitions.get(name, LOOPS_OF_PYTORCH.get(name, ()))
        macros = [macro for macro in defined if macro.parameters is not None]
        if not macros or name in self.expanding or self.is_function(name):
            return None
        inside = text(listed).strip()[1:-1]
        code = substitute(macros[0], [inside[first:last].strip() for first, last in split_top(inside)])
        if code is None:
            return None
        inner = replace(self, span=self._at(node), expanding=self.expanding | {name})
        expression = expression_of(code)
        if expression is not None:
            return inner.expression(expression)
        return ir.Block(inner.statements(statements_of(code)), scope=False, span=self._at(node))

    # ---- statements

    def statements(self, nodes: Iterable[Node]) -> tuple[ir.Statement, ...]:
        """Return statements; a declaration of several variables is several of them."""
        return tuple(statement for node in nodes for statement in self._statement(node))

    def _statement(self, node: Node) -> Iterator[ir.Statement]:
        kind = node.type
        lower = _STATEMENTS.get(kind)
        if lower is not None:
            yield from lower(self, node)
        elif kind in _SPLICED:
            yield from self.statements(one for one in node.named_children if one.type != "statement_identifier")
        elif kind.endswith("_expression") or kind in _NAMES:
            yield self.expression(node)

    def _single(self, node: Node | None) -> ir.Statement | None:
        """Return a statement that stands where there is one: the body of a loop, a side of a branch."""
        if node is None:
            return None
        listed = self.statements([node])
        return listed[0] if len(listed) == 1 else ir.Block(listed, span=self._at(node))

    def _block(self, node: Node | None) -> ir.Block:
        if node is None:
            return ir.Block(())
        return ir.Block(self.statements(node.named_children), span=self._at(node))

    def _compound_statement(self, node: Node) -> Iterator[ir.Statement]:
        yield self._block(node)

    def _expression_statement(self, node: Node) -> Iterator[ir.Statement]:
        for child in node.named_children[:1]:
            # A macro of several statements may also return from the function.
            expansion = self._expansion(child)
            yield self.expression(child) if expansion is None else expansion

    def _macro_with_block(self, node: Node) -> Iterator[ir.Statement]:
        """Yield the loop or branch whose head is a macro: ``EACH(i, n) { ... }``, which has a function's syntax.

        A block behind a macro that is not known may not be executed.
        """
        call = expression_of(text(node.child_by_field_name("declarator")))
        head = replace(self, span=self._at(node))._expansion(call) if call is not None else None
        body = self._block(node.child_by_field_name("body"))
        yield with_body(head, body) or ir.IfStatement(ir.UnknownCode(), body, None, span=self._at(node))

    def _return(self, node: Node) -> Iterator[ir.Statement]:
        value = self.expression(node.named_children[0]) if node.named_children else None
        yield ir.ReturnStatement(value, span=self._at(node))

    def _jump(self, node: Node) -> Iterator[ir.Statement]:
        yield ir.JumpStatement(_JUMPS[node.type], span=self._at(node))

    def _if(self, node: Node) -> Iterator[ir.Statement]:
        clause, other = node.child_by_field_name("condition"), node.child_by_field_name("alternative")
        if other is not None and other.type == "else_clause":
            other = other.named_children[0] if other.named_children else None
        before = self._declared_in(clause)
        then = self._single(node.child_by_field_name("consequence"))
        branch = ir.IfStatement(self._condition(clause), then, self._single(other), span=self._at(node))
        yield ir.Block((*before, branch), span=branch.span) if before else branch

    def _declared_in(self, clause: Node | None) -> tuple[ir.Statement, ...]:
        """Return the declarations in a condition: ``if (int n = f())``, ``if (int n = f(); n > 0)``."""
        kinds = ("declaration", "init_statement")
        return self.statements(
            inner
            for child in (clause.named_children if clause is not None else ())
            if child.type in kinds
            for inner in (child.named_children if child.type == "init_statement" else (child,))
        )

    def _switch(self, node: Node) -> Iterator[ir.Statement]:
        clause, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
        cases = []
        for case in body.named_children if body is not None else ():
            label = case.child_by_field_name("value")
            if case.type == "case_statement":
                inner = self.statements(one for one in case.named_children if one != label)
                cases.append(ir.SwitchCase(self._optional(label), inner, span=self._at(case)))
        yield ir.SwitchStatement(self._condition(clause), tuple(cases), span=self._at(node))

    def _loop(self, node: Node) -> Iterator[ir.Statement]:
        clause, body = node.child_by_field_name("condition"), self._single(node.child_by_field_name("body"))
        if node.type == "do_statement" and text(clause).strip("() ") in ("0", "false"):
            yield body if isinstance(body, ir.Block) else ir.Block((body,) if body is not None else ())
            return
        start = node.child_by_field_name("initializer")
        condition = None if clause is None else self._condition(clause)
        update = self._optional(node.child_by_field_name("update"))
        first = node.type == "do_statement"
        start_ = self.statements([start]) if start is not None else self._declared_in(clause)
        yield ir.Loop(start_, condition, update, body, first, span=self._at(node))

    def _range_loop(self, node: Node) -> Iterator[ir.Statement]:
        type_, name = text(node.child_by_field_name("type")), declared_name(node.child_by_field_name("declarator"))
        body = self._single(node.child_by_field_name("body"))
        yield ir.RangeLoop(type_, (name,), self._field(node, "right"), body, span=self._at(node))

    def _alias(self, node: Node) -> Iterator[ir.Statement]:
        type_ = text(node.child_by_field_name("type"))
        if node.type == "alias_declaration":
            yield ir.TypeName(text(node.child_by_field_name("name")), type_, span=self._at(node))
        for declarator in node.children_by_field_name("declarator"):
            if declarator.type == "type_identifier":
                yield ir.TypeName(text(declarator), type_, span=self._at(node))

    def _try(self, node: Node) -> Iterator[ir.Statement]:
        body = node.child_by_field_name("body") or next(iter(node.named_children), None)
        yield self._block(body)

    # ---- declarations

    def _declaration(self, node: Node) -> Iterator[ir.Statement]:
        type_ = node.child_by_field_name("type")
        if type_ is not None and type_.type in ("struct_specifier", "class_specifier"):
            type_ = type_.child_by_field_name("name")
        shared = any(child.type == "type_qualifier" and text(child) == "__shared__" for child in node.children)
        for declarator in node.children_by_field_name("declarator"):
            for declared in self._declare(text(type_), declarator):
                yield replace(declared, shared=shared) if isinstance(declared, ir.Declare) else declared

    def _declare(self, type_: str, node: Node) -> Iterator[ir.Statement]:
        value = node.child_by_field_name("value") if node.type == "init_declarator" else None
        declarator = node.child_by_field_name("declarator") if node.type == "init_declarator" else node
        span = self._at(node)
        if declarator is None:
            return
        if declarator.type == "structured_binding_declarator":
            names = tuple(text(child) for child in declarator.named_children)
            yield ir.DeclareParts(names, self.expression(value), span=span)
            return
        name = declared_name(declarator)
        if declarator.type == "function_declarator":
            pointer = declarator.child_by_field_name("declarator")
            if value is None and (pointer is None or pointer.type != "parenthesized_declarator"):
                # `dim3 grid(x, y)` has the syntax of a function's declaration.
                given = self._constructor(declarator)
                if given is not None:
                    yield ir.Declare(name, type_, given, span=span)
                return
            # The parentheses of `void (*kernel)(float*) = scale<float>` are those of a function's type.
            yield ir.Declare(name, "", self._optional(value), span=span)
            return
        pointers, lengths = 0, []
        inner: Node | None = declarator
        while inner is not None and inner.type in ("pointer_declarator", "array_declarator"):
            pointers += inner.type == "pointer_declarator"
            if inner.type == "array_declarator":
                lengths.append(self._optional(inner.child_by_field_name("size")))
            inner = inner.child_by_field_name("declarator")
        reference = declarator.type == "reference_declarator"
        yield ir.Declare(name, type_, self._optional(value), pointers, reference, tuple(lengths), span=span)

    def _constructor(self, declarator: Node) -> ir.ListValue | None:
        listed = declarator.child_by_field_name("parameters")
        call = expression_of(f"_{text(listed)}") if len(text(listed)) > 2 else None
        arguments = call.child_by_field_name("arguments") if call is not None else None
        if listed is None or call is None or call.type != "call_expression" or arguments is None:
            return None
        return replace(self, span=self._at(listed))._list(arguments)

    def parameters(self, listed: Node | None) -> tuple[ir.HostParameter, ...]:
        """Return the parameters in a list of them."""
        nodes = listed.named_children if listed is not None else ()
        return tuple(self._parameter(node) for node in nodes if node.type in _PARAMETERS and text(node) != "void")

    def _parameter(self, node: Node) -> ir.HostParameter:
        declarator = node.child_by_field_name("declarator")
        kinds, inner = [], declarator
        while inner is not None and "declarator" in inner.type:
            kinds.append(inner.type)
            inner = inner_declarator(inner)
        pointers = sum(
            kind in ("pointer_declarator", "array_declarator", "abstract_pointer_declarator") for kind in kinds
        )
        reference = "reference_declarator" in kinds
        default = self._optional(node.child_by_field_name("default_value"))
        type_ = text(node.child_by_field_name("type"))
        return ir.HostParameter(declared_name(declarator), type_, pointers, reference, default)

    def function(self, node: Node, listed: Node | None) -> FunctionBody:
        """Return what a function definition does; ``listed`` has its parameters."""
        body = node.child_by_field_name("body")
        members = [
            (text(one.named_children[0]), self._list(given))
            for child in node.named_children
            if child.type == "field_initializer_list"
            for one in child.named_children
            for given in one.named_children
            if given.type in ("argument_list", "initializer_list")
        ]
        statements = self._block(body) if body is not None else None
        return FunctionBody(self.parameters(listed), statements, tuple(members))

    def members(self, body: Node | None) -> tuple[MemberVariable, ...]:
        """Return the variables among the members of a class."""
        return tuple(
            self._member_variable(text(node.child_by_field_name("type")), declarator, node)
            for node in (body.named_children if body is not None else ())
            if node.type == "field_declaration"
            for declarator in node.children_by_field_name("declarator")
            if declarator.type != "function_declarator"
        )

    def _member_variable(self, type_: str, declarator: Node, node: Node) -> MemberVariable:
        pointers, lengths = 0, []
        inner: Node | None = declarator
        while inner is not None and inner.type in ("pointer_declarator", "array_declarator"):
            pointers += inner.type == "pointer_declarator"
            if inner.type == "array_declarator":
                lengths.append(self._optional(inner.child_by_field_name("size")))
            inner = inner_declarator(inner)
        value = node.child_by_field_name("default_value") or declarator.child_by_field_name("value")
        return MemberVariable(declared_name(declarator), type_, pointers, tuple(lengths), self._optional(value))


def _parts(node: Node) -> tuple[str, Node | None]:
    """Return a name with its scopes, and the node of its template arguments."""
    if node.type in ("template_function", "template_method", "template_type"):
        return text(node.child_by_field_name("name")), node.child_by_field_name("arguments")
    if node.type == "qualified_identifier":
        scope, inner = text(node.child_by_field_name("scope")), node.child_by_field_name("name")
        if inner is not None:
            name, arguments = _parts(inner)
            return f"{scope}::{name}", arguments
    return text(node), None


_JUMPS = {"throw_statement": "exit", "break_statement": "break", "continue_statement": "continue"}
_EXPRESSIONS: dict[str, Callable[[Lowering, Node], ir.Expression]] = {
    "number_literal": Lowering._number,
    **dict.fromkeys(("string_literal", "true", "false", "null", "nullptr"), Lowering._constant),
    **dict.fromkeys((*_NAMES, "this"), Lowering._name),
    **dict.fromkeys(("parenthesized_expression", "comma_expression"), Lowering._last),
    "condition_clause": Lowering._condition,
    "binary_expression": Lowering._binary,
    "unary_expression": Lowering._unary,
    "pointer_expression": Lowering._pointer,
    "assignment_expression": Lowering._assignment,
    "update_expression": Lowering._update,
    "conditional_expression": Lowering._conditional,
    "cast_expression": Lowering._cast,
    "sizeof_expression": Lowering._size_of,
    "subscript_expression": Lowering._subscript,
    "field_expression": Lowering._member,
    **dict.fromkeys(("initializer_list", "argument_list"), Lowering._list),
    "compound_literal_expression": Lowering._compound,
    "new_expression": Lowering._new,
    "lambda_expression": Lowering._lambda,
    "type_descriptor": Lowering._type,
    "call_expression": Lowering._call,
}


_STATEMENTS: dict[str, Callable[[Lowering, Node], Iterator[ir.Statement]]] = {
    "compound_statement": Lowering._compound_statement,
    "expression_statement": Lowering._expression_statement,
    "declaration": Lowering._declaration,
    "return_statement": Lowering._return,
    **dict.fromkeys(_JUMPS, Lowering._jump),
    "if_statement": Lowering._if,
    "switch_statement": Lowering._switch,
    **dict.fromkeys(("for_statement", "while_statement", "do_statement"), Lowering._loop),
    "for_range_loop": Lowering._range_loop,
    **dict.fromkeys(("alias_declaration", "type_definition"), Lowering._alias),
    "function_definition": Lowering._macro_with_block,
    "try_statement": Lowering._try,
}
