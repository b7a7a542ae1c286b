"""Strides that a launch passes as a list, which show how many dimensions a tensor of a caller has."""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.assumptions import TensorRank, UnexpectedRankError
from gpuemu_lsp.engine.hostcode.functions import arguments_by_position
from gpuemu_lsp.engine.hostcode.interpreter import evaluate
from gpuemu_lsp.engine.hostcode.state import Execution
from gpuemu_lsp.engine.hostcode.tensors import as_tensor
from gpuemu_lsp.engine.hostcode.values import Tensor, Undetermined


def fill_with_strides(
    run: Execution, node: ir.Launch | ir.CallExpression, parameters: Sequence[ir.HostParameter]
) -> None:
    """Let tensors whose strides are passed as ``*x.stride()`` have the rank that fills the kernel's parameters.

    The host code may not say it: of ``q``, ``k`` and ``v`` it takes the sizes of ``q`` alone.

    Raises
    ------
    UnexpectedRankError
        If one of them was assumed to have another rank.
    """
    spreads = [_strides_of(run, each.value) for each in node.arguments if isinstance(each, ir.Spread)]
    if not any(spreads):
        return
    named = dict(node.keywords)
    open_ = [tensor for tensor in spreads if tensor is not None and not run.memory(tensor.allocation).exact]
    others = len(arguments_by_position(run, node.arguments)) - sum(len(tensor.sizes or ()) for tensor in open_)
    left = len([parameter for parameter in parameters if parameter.name not in named]) - others
    rank = left // len(open_) if open_ and left % len(open_) == 0 else 0
    for tensor in open_:
        if rank > 0 and len(tensor.sizes or ()) != rank:
            known = (one for one in run.reached.tensors.values() if one != tensor.name)
            ranks = run.assumptions.ranks
            like = next((name for name in known if name in ranks and ranks[name].rank == rank), "")
            raise UnexpectedRankError(tensor.name, TensorRank(rank, False, like))


def _strides_of(run: Execution, node: ir.Expression) -> Tensor | None:
    """Return the tensor that a caller passes of which ``x.stride()`` is called."""
    if not isinstance(node, ir.CallExpression) or not isinstance(node.callee, ir.FieldAccess):
        return None
    owner = evaluate(run, node.callee.base) if node.callee.name == "stride" else None
    return as_tensor(run, owner) if isinstance(owner, Undetermined) else None
