"""Symbolic evaluation of a function that launches kernels.

Statements are evaluated in order. Where a condition is not known both branches are, and variables that differ after
them are unknown. A loop is evaluated once, with its variables unknown. Assertions give relations of sizes.
"""

from __future__ import annotations

from tree_sitter import Node

from gpuemu_lsp.engine.plan.wrappers.call_values import CallEvaluator
from gpuemu_lsp.engine.plan.wrappers.expression_values import EvaluationLimitError, Names, UnexpectedRankError
from gpuemu_lsp.engine.plan.wrappers.values import (
    LiteralValue,
    LocalFunction,
    ObjectValue,
    SymbolicTensor,
    UnknownValue,
    Value,
    ValueSequence,
)
from gpuemu_lsp.engine.source.python.syntax import descendants, text_of
from gpuemu_lsp.engine.symbolic.size import Size

_MAX_STEPS = 20_000
_MAX_ITEMS = 8
"""Items of a list for each of which a loop is evaluated."""
_SIZES = frozenset({"shape", "size", "numel", "stride", "dim", "ndim", "len"})


class Evaluator(CallEvaluator):
    """Evaluates functions of one module."""

    def run(self, function: Node, names: Names) -> Value:
        """Evaluate the body of a function; return what it returns."""
        body = function.child_by_field_name("body")
        if body is None:
            return UnknownValue("")
        if function.type == "lambda":
            return self.value(body, names)
        done, value = self._block(body, names)
        return value if done and value is not None else LiteralValue(None)

    def run_module(self, root: Node) -> None:
        """Evaluate the statements of a module."""
        self._block(root, {})

    # ---- statements --------------------------------------------------------------------------------------------------

    def _block(self, block: Node, names: Names) -> tuple[bool, Value | None]:
        """Evaluate statements; return whether they always leave the function, and the value returned."""
        for statement in block.named_children:
            self.steps.done += 1
            if self.steps.done > _MAX_STEPS:
                raise EvaluationLimitError
            left, value = self._statement(statement, names)
            if left:
                return True, value
        return False, None

    def _statement(self, node: Node, names: Names) -> tuple[bool, Value | None]:
        kind = node.type
        if kind == "expression_statement":
            for child in node.named_children:
                self._expression_statement(child, names)
        elif kind == "return_statement":
            result = self.value(node.named_children[0], names) if node.named_children else LiteralValue(None)
            return True, result
        elif kind == "raise_statement":
            return True, UnknownValue("")
        elif kind == "assert_statement":
            self._assume(node.named_children[0], names)
        elif kind == "if_statement":
            return self._if(node, names)
        elif kind in ("for_statement", "while_statement"):
            self._loop(node, names)
        elif kind in ("with_statement", "try_statement"):
            for block in node.named_children:
                if block.type == "block":
                    left, value = self._block(block, names)
                    if left:
                        return True, value
        elif kind == "function_definition":
            names[text_of(node.child_by_field_name("name"))] = LocalFunction(node, dict(names))
        return False, None

    def _expression_statement(self, node: Node, names: Names) -> None:
        if node.type == "assignment":
            right = node.child_by_field_name("right")
            target = node.child_by_field_name("left")
            if right is not None and target is not None:
                value = self.value(right, names)
                starred = any(one.type == "list_splat_pattern" for one in target.named_children)
                if target.type in ("pattern_list", "tuple_pattern") and not starred:
                    self._expect_rank(right, value, len(target.named_children), names)
                self.bind(target, value, names)
        elif node.type == "augmented_assignment":
            target = node.child_by_field_name("left")
            right = node.child_by_field_name("right")
            if target is not None and right is not None and target.type == "identifier":
                sign = text_of(node.child_by_field_name("operator")).rstrip("=")
                left = names.get(text_of(target), UnknownValue(text_of(target)))
                names[text_of(target)] = self._arithmetic(sign, left, self.value(right, names), node)
        else:
            self.value(node, names)

    def _expect_rank(self, node: Node, extents: Value, rank: int, names: Names) -> None:
        """Check the rank of a view of a parameter whose rank is assumed, as in ``M, N = t.shape``.

        ``node`` is the expression of its ``extents``.

        Raises
        ------
        UnexpectedRankError
            If the assumed rank is another one.
        """
        callee = node.child_by_field_name("function") if node.type == "call" else node
        owner = callee.child_by_field_name("object") if callee is not None and callee.type == "attribute" else None
        if owner is None or not isinstance(extents, ValueSequence):
            return
        tensor = self.tensor(self.value(owner, names))
        if not isinstance(tensor, SymbolicTensor) or tensor.storage.name not in self.assumptions.tensors:
            return
        if len(extents.items) != rank:
            raise UnexpectedRankError(tensor.storage.name, len(tensor.storage.shape) + rank - len(extents.items))
        tensor.storage.certain = True

    def bind(self, target: Node, value: Value, names: Names) -> None:
        """Assign a value to a variable, or its parts to several."""
        if target.type == "identifier":
            names[text_of(target)] = value
        elif target.type in ("pattern_list", "tuple_pattern", "list_pattern"):
            parts = target.named_children
            items = value.items if isinstance(value, ValueSequence) else ()
            star = next((index for index, one in enumerate(parts) if one.type == "list_splat_pattern"), None)
            if star is not None and len(items) >= len(parts) - 1:
                tail = len(parts) - 1 - star
                middle = ValueSequence(items[star : len(items) - tail])
                items = (*items[:star], middle, *items[len(items) - tail :])
            if len(items) != len(parts):
                items = tuple(UnknownValue(text_of(one)) for one in parts)
            for part, item in zip(parts, items, strict=True):
                inner = part.named_children[0] if part.type == "list_splat_pattern" and part.named_children else part
                self._bind_size(inner, item, names)
        elif target.type == "attribute":
            owner = self.value(target.child_by_field_name("object"), names)
            if isinstance(owner, ObjectValue):
                owner.attributes[text_of(target.child_by_field_name("attribute"))] = value
        elif target.type == "subscript":
            written = self.value(target.child_by_field_name("value"), names)
            if isinstance(written, SymbolicTensor):
                written.storage.state = "filled"
            key = self.value(target.child_by_field_name("subscript"), names)
            if isinstance(written, ObjectValue) and isinstance(key, LiteralValue) and not self._undecided:
                written.attributes[str(key.value)] = value
            elif isinstance(written, ObjectValue):
                written.complete = False

    def _bind_size(self, target: Node, item: Value, names: Names) -> None:
        """Assign an extent. Two extents of tensors with one name are equal: ``M, K = a.shape; K, N = b.shape``."""
        before = names.get(text_of(target)) if text_of(target) != "_" else None
        if isinstance(before, Size) and isinstance(item, Size):
            self.assumptions.assume([("==", before, item)])
        if isinstance(item, Size) and target.type == "identifier":
            self.assumptions.prefer(item, text_of(target))
        self.bind(target, item, names)

    def _if(self, node: Node, names: Names) -> tuple[bool, Value | None]:
        condition, then = node.child_by_field_name("condition"), node.child_by_field_name("consequence")
        others = node.children_by_field_name("alternative")
        known = self.condition(condition, names)
        if known is None and self.decision is not None:
            known = self.decide_size(condition, names)
        if known is True and then is not None:
            return self._block(then, names)
        if known is False:
            return self._alternatives(others, names)
        taken, rest = dict(names), dict(names)
        before = self.assumptions.copy()
        self._assume(condition, taken)
        self._undecided += 1
        left, value = self._block(then, taken) if then is not None else (False, None)
        self.assumptions.restore(before)
        self._assume(condition, rest, negated_=True)
        left_too, other = self._alternatives(others, rest)
        self._undecided -= 1
        if not left:  # the condition may hold after the statement too
            self.assumptions.restore(before)
            if left_too:
                self._assume(condition, names)
        if left and left_too:
            return True, value if value == other else UnknownValue("the result")
        chosen = rest if left else taken if left_too else None
        for name in {*taken, *rest}:
            one, two = taken.get(name), rest.get(name)
            if chosen is not None:
                if name in chosen:
                    names[name] = chosen[name]
            elif one == two and one is not None:
                names[name] = one
            else:
                names[name] = UnknownValue(name)
        return False, None

    def decide_size(self, condition: Node | None, names: Names) -> bool | None:
        """Assume a condition on sizes, or its opposite, so that only such sizes are checked; None for any other."""
        before = self.assumptions.copy()
        relation = self._relation(condition, names, not self.decision)
        if not relation:
            return None
        self.assumptions.assume(relation)
        after = self.assumptions.copy()
        unclear = after.partial != before.partial or after.known.others != before.known.others
        if unclear or after == before:
            self.assumptions.restore(before)
            return None
        return self.decision

    def _alternatives(self, others: list[Node], names: Names) -> tuple[bool, Value | None]:
        if not others:
            return False, None
        first = others[0]
        if first.type == "else_clause":
            body = first.child_by_field_name("body")
            return self._block(body, names) if body is not None else (False, None)
        known = self.condition(first.child_by_field_name("condition"), names)
        then = first.child_by_field_name("consequence")
        if known is True and then is not None:
            return self._block(then, names)
        if known is False or then is None:
            return self._alternatives(others[1:], names)
        taken, rest, condition = dict(names), dict(names), first.child_by_field_name("condition")
        before = self.assumptions.copy()
        self._assume(condition, taken)
        left, value = self._block(then, taken)
        self.assumptions.restore(before)
        self._assume(condition, rest, negated_=True)
        left_too, other = self._alternatives(others[1:], rest)
        if left and left_too:
            return True, value if value == other else UnknownValue("the result")
        for name in {*taken, *rest}:
            one, two = (rest if left else taken).get(name), (taken if left_too else rest).get(name)
            names[name] = one if one is not None and one == two else UnknownValue(name)
        return False, None

    def _loop(self, node: Node, names: Names) -> None:
        body, target = node.child_by_field_name("body"), node.child_by_field_name("left")
        items = self.value(node.child_by_field_name("right"), names) if target is not None else None
        unrolled = isinstance(items, ValueSequence) and len(items.items) <= _MAX_ITEMS
        if unrolled and isinstance(items, ValueSequence) and body is not None and target is not None:
            for item in items.items:
                inner = dict(names)
                self.bind(target, item, inner)
                self._block(body, inner)
            body = None
        changed = list(descendants(node, "assignment", "augmented_assignment"))
        for statement in changed:
            for name in descendants(statement.child_by_field_name("left") or node, "identifier"):
                if text_of(name) in names and not isinstance(names[text_of(name)], SymbolicTensor):
                    names[text_of(name)] = UnknownValue(text_of(name))
        if target is not None:
            self.bind(target, UnknownValue(text_of(target)), names)
        if body is not None:
            self._block(body, names)

    # ---- relations ---------------------------------------------------------------------------------------------------

    def _assume(self, condition: Node | None, names: Names, negated_: bool = False) -> None:
        """Assume that a condition holds; note one about sizes that is not understood."""
        if condition is None:
            return
        relation = self._relation(condition, names, negated_)
        self.assumptions.assume(relation)
        disjunction = any(
            (text_of(one.child_by_field_name("operator")) == "and") == negated_
            for one in descendants(condition, "boolean_operator")
        )
        if (not relation or disjunction) and self._is_about_sizes(condition, names):
            self.assumptions.partial = True

    def _is_about_sizes(self, condition: Node, names: Names) -> bool:
        if self.truth(self.value(condition, names)) is not None:
            return False
        read = [text_of(one) for one in descendants(condition, "identifier")]
        sized = any(isinstance(names.get(name), Size) or name in _SIZES for name in read)
        return sized or any(name in self.functions for name in read)

    def _relation(self, node: Node | None, names: Names, negated_: bool = False) -> list[tuple[str, Value, Value]]:
        """Return the comparisons that an assertion says hold."""
        if node is None:
            return []
        if node.type == "parenthesized_expression":
            return self._relation(node.named_children[0], names, negated_)
        if node.type == "not_operator":
            return self._relation(node.child_by_field_name("argument"), names, not negated_)
        if node.type == "boolean_operator":
            sides = (node.child_by_field_name("left"), node.child_by_field_name("right"))
            if (text_of(node.child_by_field_name("operator")) == "and") == (not negated_):
                return [one for side in sides for one in self._relation(side, names, negated_)]
            return []
        if node.type != "comparison_operator":
            return []
        signs = [text_of(child) for child in node.children_by_field_name("operators")]
        values = [self.value(child, names) for child in node.named_children]
        if len(values) == 2 and all(isinstance(one, ValueSequence) for one in values):
            for child, extents, other in zip(node.named_children, values, reversed(values), strict=True):
                if isinstance(other, ValueSequence):
                    self._expect_rank(child, extents, len(other.items), names)
        if negated_:
            inverse = {"==": "!=", "!=": "==", "<": ">=", ">=": "<", ">": "<=", "<=": ">", "not in": "in"}
            if len(signs) != 1 or signs[0] not in inverse:
                return []
            signs = [inverse[signs[0]]]
        if len(values) != len(signs) + 1:
            return []
        return [(sign, values[index], values[index + 1]) for index, sign in enumerate(signs)]
