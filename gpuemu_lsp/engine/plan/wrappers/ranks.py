"""The ranks of the tensors that a function uses, as its code shows them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.assumptions import TensorRank
from gpuemu_lsp.engine.hostcode.program import FunctionBody
from gpuemu_lsp.engine.hostcode.walk import walk

_SIZES = ("shape", "size")
_FLAT = frozenset({"numel", "nelement", "view", "reshape", "flatten"})
"""Methods that a function calls on tensors of any rank."""


@dataclass(slots=True)
class _Uses:
    """What a function does with one variable: the rank that it states, the axes that it reads."""

    row: bool = False
    stated: list[int] = field(default_factory=list)
    unpacked: list[int] = field(default_factory=list)
    axes: set[int] = field(default_factory=set)
    flat: bool = False

    def rank(self) -> TensorRank:
        if self.row:
            return TensorRank(2, certain=True)
        if self.stated or self.unpacked:
            return TensorRank((self.stated or self.unpacked)[0], certain=True)
        axes, positive = self.axes, [axis for axis in self.axes if axis >= 0]
        if not axes:
            return TensorRank(1, certain=self.flat)
        rank = max(max(positive, default=0) + 1 + (min(axes) < 0 and not positive), -min(0, *axes))
        if min(axes) < 0 and positive:
            rank = max(rank, 2)
        if min(axes) < 0 and len(positive) > 2:
            # Of three axes by number and the last one by -1, the last one is mostly a fourth.
            return TensorRank(max(positive) - min(axes) + 1, certain=False)
        return TensorRank(rank, certain=len(axes) >= 2 or (axes == {-1} and self.flat))


def tensor_ranks(bodies: Iterable[FunctionBody]) -> dict[str, TensorRank]:
    """Return the ranks of parameters and variables, were they tensors.

    Of ``x.shape[1]`` the rank is at least two: it is not certain. One that the code states or unpacks is.
    """
    uses: defaultdict[str, _Uses] = defaultdict(_Uses)
    for body in bodies:
        for parameter in body.parameters:
            uses[parameter.name] = _Uses()
    for body in bodies:
        for node in walk(body.statements) if body.statements is not None else ():
            _note(node, uses)
            if isinstance(node, ir.IfStatement) and _raises(node.then):
                _note_refused(node.condition, uses)
    return {name: each.rank() for name, each in uses.items()}


def _note(node: ir.Node, uses: defaultdict[str, _Uses]) -> None:
    match node:
        case ir.Conditional(condition=ir.BinaryOperation(operator="==", left=left, right=ir.Constant(value=1))):
            # A vector is made a matrix of one row: `x.unsqueeze(0) if x.ndim == 1 else x`.
            if (name := _rank_of(left)) and node.other == ir.NameUse(name):
                uses[name].row = True
        case ir.BinaryOperation(operator="==", left=left, right=ir.Constant(value=int(rank))):
            if name := _rank_of(left):
                uses[name].stated.append(rank)
        case ir.Assign(target=ir.ListValue(items=items), value=ir.ListValue(items=values)):
            # B, T, H, K, V = *k.shape, v.shape[-1]
            spread = [name for each in values if isinstance(each, ir.Spread) and (name := _sizes_of(each.value))]
            if len(spread) == 1:
                uses[spread[0]].unpacked.append(len(items) - len(values) + 1)
        case ir.Assign(target=ir.ListValue(items=items), value=value):
            if name := _sizes_of(value):
                uses[name].unpacked.append(len(items))
        case ir.Subscript(base=ir.FieldAccess(base=ir.NameUse(name=name), name="shape"), index=index):
            _note_axis(uses[name], index)
        case ir.CallExpression(callee=ir.FieldAccess(base=ir.NameUse(name=name), name=method), arguments=arguments):
            uses[name].flat |= method in _FLAT
            if method in ("size", "stride") and len(arguments) == 1:
                _note_axis(uses[name], arguments[0])


def _raises(node: ir.Statement | None) -> bool:
    return isinstance(node, ir.Block) and ir.JumpStatement("exit") in node.statements[:1]


def _note_refused(condition: ir.Expression, uses: defaultdict[str, _Uses]) -> None:
    """Note the ranks that a function needs: those with another one are an error, ``if x.ndim != 2: raise``."""
    for node in walk(condition):
        match node:
            case ir.BinaryOperation(operator="!=", left=left, right=ir.Constant(value=int(rank))):
                if name := _rank_of(left):
                    uses[name].stated.append(rank)


def _note_axis(uses: _Uses, index: ir.Expression) -> None:
    match index:
        case ir.Constant(value=int(axis)):
            uses.axes.add(axis)
        case ir.UnaryOperation(operator="-", operand=ir.Constant(value=int(axis))):
            uses.axes.add(-axis)


def _rank_of(node: ir.Expression) -> str:
    """Return the variable of ``x.ndim``, ``x.dim()`` or ``len(x.shape)``."""
    match node:
        case ir.FieldAccess(base=ir.NameUse(name=name), name="ndim"):
            return name
        case ir.CallExpression(callee=ir.FieldAccess(base=ir.NameUse(name=name), name="dim"), arguments=()):
            return name
        case ir.CallExpression(callee=ir.NameUse(name="len"), arguments=(argument,)):
            return _sizes_of(argument)
    return ""


def _sizes_of(node: ir.Expression) -> str:
    """Return the variable of ``x.shape``, ``x.size()`` or ``x.contiguous().shape``."""
    if isinstance(node, ir.CallExpression) and not node.arguments:
        node = node.callee
    if not isinstance(node, ir.FieldAccess) or node.name not in _SIZES:
        return ""
    match node.base:
        case ir.CallExpression(callee=ir.FieldAccess(base=ir.NameUse(name=name), name="contiguous")):
            return name
        case ir.NameUse(name=name):
            return name
    return ""
