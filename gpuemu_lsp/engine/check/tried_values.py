"""Which numbers are tried where the program does not show them, by their use in the compiled kernel.

Zeros are valid as indices and as numbers of iterations, and so are numbers below every size where the lengths of
buffers are inferred. Where neighbouring elements are the bounds of a loop, as row pointers are, or are compared, as
keys in order are, they do not decrease in half of the cases: the loop runs, and equal elements are neighbours. Where
an input is only compared and computed with, the branches that they never reach are tried with other values, in half of
the cases. Where the kernel tests an input for NaN or infinity, one case has them. What such values prove: see
:mod:`.claims`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.element_types import DISCRETE, FLOATS
from gpuemu_lsp.engine.plan.facts import PlanOrigin, Source, Tried, ValueFact
from gpuemu_lsp.engine.plan.length_search import IndexedTensors
from gpuemu_lsp.engine.plan.model import Plan, TensorArg, parameters


def with_tried_values(plan: Plan, artifact: Artifact) -> Plan:
    """Return the plan with facts about the numbers that its buffers hold and nothing shows."""
    values = dict(plan.facts.values)
    if plan.facts.origin is PlanOrigin.SIGNATURE:
        values |= {arg.param: ValueFact(Source.ASSUMED, Tried.INDICES) for arg in plan.args if _is_open(arg)}
    buffers = _buffers(plan)
    values |= _special(plan, artifact, buffers)
    assumed = {param: number for param, number in buffers.items() if _is_assumed(values.get(param))}
    if assumed:
        # Delayed, as all of the emulator: see `case_runner`.
        from gpuemu_lsp.engine.emulator.analysis.dependence.compared import only_compared
        from gpuemu_lsp.engine.emulator.analysis.dependence.neighbouring_elements import compared_neighbours, row_bounds

        ptx, entry = artifact.ptx, artifact.entries[plan.entry]
        integers = {arg.param for arg in plan.args if isinstance(arg, TensorArg) and arg.dtype in DISCRETE}
        compared = only_compared(ptx, entry, assumed.values())
        rising = row_bounds(ptx, entry, assumed.values()) | compared_neighbours(ptx, entry, assumed.values())
        for param, number in assumed.items():
            in_range = values[param].tried is Tried.RANGE
            if number in compared and not in_range:
                values[param] = ValueFact(Source.ASSUMED, Tried.ANY, tuple(sorted(compared[number])))
            elif number in rising and param in integers:
                values[param] = ValueFact(Source.ASSUMED, Tried.RISING)
    return replace(plan, facts=replace(plan.facts, values=values))


def indexed_tensors(plan: Plan, artifact: Artifact) -> IndexedTensors:
    """Return the tensors that hold the bounds of rows, and those whose elements integers in memory choose."""
    numbers = {
        arg.param: number
        for number, args in enumerate(parameters(plan.args))
        for arg in args
        if isinstance(arg, TensorArg) and arg.texture is None and arg.member is None
    }
    discrete = {arg.param for arg in plan.args if isinstance(arg, TensorArg) and arg.dtype in DISCRETE}
    integers = {numbers[param] for param in discrete & numbers.keys()}
    if not integers:
        return IndexedTensors()
    from gpuemu_lsp.engine.emulator.analysis.dependence.chosen_elements import chosen_elements
    from gpuemu_lsp.engine.emulator.analysis.dependence.neighbouring_elements import row_bounds

    ptx, entry = artifact.ptx, artifact.entries[plan.entry]
    rows, (chosen, counters) = row_bounds(ptx, entry, integers), chosen_elements(ptx, entry, integers)
    return IndexedTensors(
        frozenset(param for param, number in numbers.items() if number in rows),
        frozenset(param for param, number in numbers.items() if number in chosen - rows),
        frozenset(param for param, number in numbers.items() if number in counters - rows),
    )


def _special(plan: Plan, artifact: Artifact, buffers: Mapping[str, int]) -> dict[str, ValueFact]:
    """Return the facts about the floating-point numbers that the kernel tests for NaN and infinity."""
    if plan.facts.origin not in (PlanOrigin.SIGNATURE, PlanOrigin.HOST_CODE):
        return {}
    floats = {arg.param for arg in plan.args if isinstance(arg, TensorArg) and arg.dtype in FLOATS and not arg.range}
    candidates = {param: number for param, number in buffers.items() if param in floats}
    if not candidates:
        return {}
    from gpuemu_lsp.engine.emulator.analysis.dependence.compared import special_inputs

    tested = special_inputs(artifact.ptx, artifact.entries[plan.entry], candidates.values())
    return {param: ValueFact(Source.READ, Tried.SPECIAL) for param, number in candidates.items() if number in tested}


def _is_assumed(fact: ValueFact | None) -> bool:
    return fact is not None and fact.source is Source.ASSUMED and fact.tried is not Tried.SPECIAL


def _is_open(arg: object) -> bool:
    """Return whether an argument holds integers of which the signature shows no range."""
    return isinstance(arg, TensorArg) and arg.dtype in DISCRETE and arg.direction != "out" and arg.range is None


def _buffers(plan: Plan) -> dict[str, int]:
    """Return the buffers that are read and share memory with no other, with the numbers of their parameters."""
    shared = {arg.shares for arg in plan.args if isinstance(arg, TensorArg)}
    return {
        arg.param: number
        for number, args in enumerate(parameters(plan.args))
        for arg in args
        if isinstance(arg, TensorArg) and arg.shares is None and arg.param not in shared and arg.direction != "out"
    }
