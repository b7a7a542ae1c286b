"""Interpretation of a function that launches kernels, with arguments that are not known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.hostcode import calls, ir, statements  # noqa: F401  # they register what each kind of node does
from gpuemu_lsp.engine.hostcode.assumptions import HostAssumptions, Layout, TensorRank, UnexpectedRankError
from gpuemu_lsp.engine.hostcode.functions import call_function
from gpuemu_lsp.engine.hostcode.interpreter import evaluate
from gpuemu_lsp.engine.hostcode.program import HostFunction, HostProgram
from gpuemu_lsp.engine.hostcode.python.lower import ARRAY
from gpuemu_lsp.engine.hostcode.state import CallFrame, Execution, HostRun, LimitError
from gpuemu_lsp.engine.hostcode.tensors import items_of, passed_tensor
from gpuemu_lsp.engine.hostcode.values import (
    Contents,
    FloatValue,
    Lvalue,
    RecordValue,
    StringValue,
    Tensor,
    Undetermined,
    Unknown,
    Value,
    is_null,
)
from gpuemu_lsp.engine.plan.wrappers.ranks import tensor_ranks
from gpuemu_lsp.engine.symbolic.conditions import Condition

CONTEXT = "ctx"
"""The first parameter of the methods of an autograd function, by convention."""
_MAX_INTERPRETATIONS = 6
_LARGEST_SIZE = 4096
"""Sizes that checks draw are smaller, so that all of them are on one side of a limit that is not."""
_DEFAULT_RANK = TensorRank(1, certain=False)


@dataclass(frozen=True, slots=True)
class WrapperRun:
    """The interpretation of one function, or of the statements of a module.

    ``before`` is the method that sets the attributes which a method reads. ``defaults``: optional parameters have their
    defaults. ``decision`` is what flags that are not known are assumed to be. ``given`` are parameters with values.
    ``layouts`` are those of tensors that callers pass otherwise than contiguous.
    """

    program: HostProgram
    function: HostFunction
    before: HostFunction | None = None
    defaults: bool = True
    decision: bool | None = None
    given: Mapping[str, Value] | None = None
    layouts: Mapping[str, Layout] = field(default_factory=dict)

    def interpreted(self) -> HostRun:
        """Return what the function does, interpreted again if a tensor turns out to have another rank than assumed.

        Raises
        ------
        LimitError
            If it takes too long.
        """
        bodies = [each.body for each in (self.function, self.before) if each is not None]
        ranks = tensor_ranks(bodies)
        for _ in range(_MAX_INTERPRETATIONS):
            assumptions = HostAssumptions(
                ranks=ranks, layouts=self.layouts, decision=self.decision, largest=_LARGEST_SIZE
            )
            run = Execution(self.program, assumptions, frame=CallFrame(path=self.function.path))
            try:
                self._execute(run)
            except UnexpectedRankError as error:
                ranks = {**ranks, error.name: error.rank}
            else:
                return run.reached
        raise LimitError

    def _execute(self, run: Execution) -> None:
        function, owner = self.function, self.function.owner
        if owner is None:
            self._end(run, call_function(run, function, self._arguments(run, function, self.defaults), ()))
            return
        cell = run.new_cell(RecordValue(owner))
        names = [parameter.name for parameter in function.body.parameters]
        autograd = is_autograd(run.program, owner)
        context: list[Value | None] = [Lvalue(cell)] if autograd and names[:1] == [CONTEXT] else []
        given = self._arguments(run, function, self.defaults)[len(context) :]
        if self.before is not None:
            passed = self._arguments(run, self.before, True)[len(context) :]
            outputs = call_function(run, self.before, [*context, *passed], (), cell)
            if autograd:
                given = _gradients(run, outputs, names[len(context) :], given)
        if not autograd:
            _as_members(run, cell)
        self._end(run, call_function(run, function, [*context, *given], (), cell))

    def _end(self, run: Execution, result: Value) -> None:
        returned = items_of(run, result) or [result]
        run.reached.returned |= {each.allocation for each in returned if isinstance(each, Tensor)}

    def _arguments(self, run: Execution, function: HostFunction, defaults: bool) -> list[Value | None]:
        given = self.given or {}
        return [given.get(each.name) or _argument(run, each, defaults) for each in function.body.parameters]


def is_autograd(program: HostProgram, owner: str) -> bool:
    """Return whether a class is an autograd function: its ``forward`` takes the context."""
    forward = method_of(program, owner, "forward")
    return forward is not None and [each.name for each in forward.body.parameters[:1]] == [CONTEXT]


def method_of(program: HostProgram, owner: str, name: str) -> HostFunction | None:
    """Return a method of a class."""
    return next((each for each in program.functions.get(name, ()) if each.owner == owner), None)


def _argument(run: Execution, parameter: ir.HostParameter, defaults: bool) -> Value:
    """Return the value of a parameter without a caller: its default, or one of its type."""
    if parameter.default is not None:
        value = evaluate(run, parameter.default)
        is_option = isinstance(value, Condition | StringValue | FloatValue) or is_null(value)
        if not isinstance(value, Unknown) and (defaults or not is_option):
            return value
        if isinstance(value, Condition):
            return Unknown("bool")
    elif parameter.type == "bool":
        return Unknown("bool")
    elif parameter.type == "double":
        return FloatValue(value=0.5)
    elif parameter.type == "int":
        return run.passed(parameter.name)
    tensor = passed_tensor(run, parameter.name)
    if parameter.type == ARRAY:
        run.reached.tensors[tensor.allocation] = tensor.name
        return tensor
    return Undetermined(tensor)


def _gradients(run: Execution, outputs: Value, names: list[str], given: list[Value | None]) -> list[Value | None]:
    """Return the gradients that ``backward`` gets: they have the sizes of the outputs of ``forward``."""
    tensors = items_of(run, outputs) or [outputs]
    passed = [
        _passed(run, name, each, run.memory(each.allocation).exact) if isinstance(each, Tensor) else None
        for name, each in zip(names, tensors, strict=False)
    ]
    passed += [None] * (len(given) - len(passed))
    return [value if value is not None else other for value, other in zip(passed, given, strict=False)]


def _as_members(run: Execution, cell: int) -> None:
    """Let the tensors of a module be those of an existing object, whose sizes other calls determine."""
    record = run.held(cell)
    for name, value in record.fields.items() if isinstance(record, RecordValue) else ():
        if isinstance(value, Tensor):
            run.assign(Lvalue(cell, (name,)), _passed(run, name, value, exact=False))


def _passed(run: Execution, name: str, tensor: Tensor, exact: bool) -> Tensor:
    """Return a tensor of a caller that has the sizes and the type of another one."""
    before = run.memory(tensor.allocation)
    contents = replace(before.contents, kind="any") if before.contents.kind == "any" else Contents("any")
    allocation = run.allocate(name, None, "parameter", contents).allocation or 0
    memory = replace(
        run.memory(allocation), sizes=tensor.sizes, elements=before.elements, dtype=before.dtype, exact=exact
    )
    run.set_memory(allocation, memory)
    run.reached.tensors[allocation] = name
    return Tensor(name, allocation, tensor.sizes)
