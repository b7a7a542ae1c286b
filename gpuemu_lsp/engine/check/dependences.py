"""On what an event of a launch depends: sizes, values of arguments, the extents of buffers, and the block.

What the compiled code says about accesses is one analysis for each kernel; this module asks it in the terms of a plan.
A message is never read: an event has its rule, buffer, offset, size and instruction.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.check.access_traits import is_capacity, is_in_array, needs_multiples
from gpuemu_lsp.engine.element_types import DISCRETE, FLOATS
from gpuemu_lsp.engine.execution import LOCAL_MEMORY, Event, Request
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.plan.facts import Claim, Need, PlanOrigin, Source, Tried
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, ScalarArg, TensorArg, parameters
from gpuemu_lsp.engine.project.expressions import Expression, names

if TYPE_CHECKING:
    from gpuemu_lsp.engine.emulator.analysis.dependence.kernel import Dependence, KernelDependences
    from gpuemu_lsp.engine.emulator.analysis.dependence.sources import ParameterValue
    from gpuemu_lsp.engine.emulator.analysis.dependence.sources import Source as CodeSource

ACCESS_RULES = frozenset({"memory/out-of-bounds", "memory/misaligned", "memory/null-pointer"})
INCOMPLETE_RULES = frozenset({"sync/trap", "sync/hang"})
"""Rules of launches that did not run to completion: the kernel may demand sizes and values that it was not given."""
_VALUE_RULES = frozenset({"sync/hang", "sync/trap", "sync/deadlock"})
_SYNCHRONIZATION_RULES = frozenset({"sync/barrier-divergence", "sync/missing-warp-mask"})
_FLOAT_RULES = ACCESS_RULES | {"memory/uninitialized-read"}
_ARRAY_RULES = frozenset({"memory/out-of-bounds", "memory/uninitialized-read"})
_PARTIAL_BLOCK_RULES = frozenset({"sync/barrier-divergence", "sync/missing-warp-mask", "memory/global-race"})
"""Rules that a block larger than a row can break, where the block size the kernel is written for cannot."""
_LARGER_BLOCK_RULES = _PARTIAL_BLOCK_RULES | {"memory/shared-race"}
"""Rules that more threads than a kernel is written for can break."""
_NO_PARAMETER = -1
_NEAR = 1 << 16
"""Bytes before a buffer at which an access is meant for it."""


@dataclass(slots=True)
class Dependences:
    """The dependences of a plan's launches. ``launch`` has the code of all cases, or, in Triton, that of one.

    ``passed_names`` are the arguments of that code by the number of its parameter.
    """

    plan: Plan
    launch: Request
    passed_names: tuple[str, ...]

    def tensor(self, event: Event | None) -> TensorArg | None:
        """Return the argument of the buffer of an event."""
        tensors = (arg for arg in self.plan.args if isinstance(arg, TensorArg) and event is not None)
        return next((arg for arg in tensors if event is not None and arg.param == event.buffer), None)

    # ---- sizes

    def sizes(self, event: Event | None, case: Case) -> Mapping[str, Need]:
        """Return the dims of the case on which an event, or wrong numbers, depend, and how."""
        if event is None:
            return dict.fromkeys(case.dims, Need.OCCURS)
        if event.rule in INCOMPLETE_RULES:
            demanded = self._demanded(event, case)
            return {name: Need.GIVEN if name in demanded else Need.HANDLED for name in case.dims}
        arg, need = self.tensor(event), Need.OCCURS
        if arg is not None and needs_multiples(event, arg):
            need |= Need.SEVERAL
        if arg is None and event.rule == "memory/out-of-bounds":
            need |= Need.DETERMINED
        if arg is None and is_capacity(event, case):
            need |= Need.BEYOND_ARRAY
        separate = _names(arg.shape) if arg is not None and event.rule in ACCESS_RULES else frozenset[str]()
        return {
            name: need | Need.SEPARATE if name in separate else need
            for name in self._deciding(event, case)
            if name in case.dims
        }

    def _demanded(self, event: Event, case: Case) -> Collection[str]:
        """Return the dims of which the kernel may demand other values, so that a launch comes to its end.

        It does not demand them of a loop whose end they do not decide.
        """
        if not self._is_analysed or event.rule != "sync/hang":
            return case.dims
        from gpuemu_lsp.engine.emulator.analysis.dependence.sources import UNSETTLED, OtherSource

        sources = self._code.leaving(event.location)
        if sources & (UNSETTLED - {OtherSource.OUTSIDE}):
            return case.dims
        block = self.plan.block if OtherSource.BLOCK in sources else ()
        return _names([*block, *self._expressions(sources)])

    def _deciding(self, event: Event, case: Case) -> Collection[str]:
        """Return the dims that decide about the accesses of an event."""
        if not self._is_analysed or self._needs_values(event):
            return case.dims
        return self._in_each_block(event) if self._is_in_each_block(event) else self.passed(event)

    def _is_in_each_block(self, event: Event) -> bool:
        """Return whether an event is about memory that each block has: each makes these accesses, however many run."""
        overrun = event.rule == "memory/out-of-bounds" and is_in_array(event)
        return (overrun or event.rule == "memory/shared-race") and self._is_analysed and not self._needs_values(event)

    def _in_each_block(self, event: Event) -> frozenset[str]:
        """Return the dims that decide about such an event."""
        sources = {source for access in self._of_accesses(event) for source in (*access.address, *access.control)}
        return _names([*self.plan.block, self.plan.shared, *self._expressions(sources)])

    def passed(self, event: Event | None) -> frozenset[str]:
        """Return the dims that the launch passes to the kernel, and those of the extent of the event's buffer.

        All of the plan for wrong numbers.
        """
        if event is None:
            return frozenset(dim.name for dim in self.plan.dims)
        expressions = [*self.plan.grid, *self.plan.block, self.plan.shared]
        for arg in self.plan.args:
            if isinstance(arg, ScalarArg) and isinstance(arg.value, Expression):
                expressions.append(arg.value)
            elif isinstance(arg, TensorArg) and arg.pointer_offset is not None:
                expressions.append(arg.pointer_offset)
            if isinstance(arg, TensorArg) and arg.param == event.buffer:
                expressions += arg.shape
        return _names(expressions)

    def relates_sizes(self, event: Event | None, case: Case) -> bool:
        """Return whether an event depends on several sizes, and so on how the program relates them."""
        facts = self.plan.facts
        if len(case.dims) < 2 or (not facts.assumed_values and self.are_given(case)):
            return False
        arg = self.tensor(event)
        read = arg is not None and facts.buffer(arg.param).use.source is Source.READ
        if arg is not None and read and _names(arg.shape) >= case.dims.keys():
            # Sizes that are factors of one length are independent.
            return False
        if event is None or not self._is_in_each_block(event):
            return True
        block, deciding = _names(self.plan.block), self._in_each_block(event)
        undetermined = {name for name, size in facts.sizes.items() if size.source is Source.ASSUMED}
        if facts.origin is PlanOrigin.SIGNATURE and deciding.isdisjoint(undetermined):
            # The kernel has them, and only how they are related to the others is not known.
            return False
        return len(deciding - block) > 1 or not any(
            deciding - block <= {name} and self._occur((block & case.dims.keys()) - {name}, case) for name in case.dims
        )

    def is_decided_by_other_sizes(self, event: Event) -> bool:
        """Return whether sizes that the kernel gets, and not the number of blocks alone, decide about an access."""
        from gpuemu_lsp.engine.emulator.analysis.dependence.sources import OtherSource

        if not self._is_analysed or self._needs_values(event):
            return True
        sources = {source for access in self._of_accesses(event) for source in (*access.address, *access.control)}
        return bool(_names([*self._expressions(sources - {OtherSource.GRID})]))

    def are_given(self, case: Case) -> bool:
        """Return whether a case has sizes that the program itself has."""
        sizes = self.plan.facts.sizes
        return all(name in sizes and value in sizes[name].values for name, value in case.dims.items())

    def _occur(self, names_: Collection[str], case: Case) -> bool:
        sizes = self.plan.facts.sizes
        facts = (sizes[name].fact(name, case.dims[name], Need.OCCURS) for name in names_ if name in sizes)
        return all(fact.source is not Source.ASSUMED for fact in facts)

    # ---- extents, arrays and the block

    def extents(self, event: Event | None, case: Case) -> Collection[str]:
        """Return the buffers on whose extent an event depends."""
        if event is None:
            return ()
        arg = self.tensor(event)
        if arg is None:
            # Far outside of a buffer, an access is in memory that is not a buffer's.
            near = event.buffer is not None and event.offset is not None and -_NEAR <= event.offset <= _NEAR
            outside = event.rule == "memory/out-of-bounds" and not near and not is_in_array(event)
            return tuple(self.plan.facts.buffers) if outside else ()
        left = self._left_behind(event, arg)
        # A race is one whatever the length is, but the length could show how several sizes are related.
        facts, several = self.plan.facts, len(case.dims) > 1
        # Of any length, where integers in memory choose the elements.
        chosen = facts.origin is PlanOrigin.SIGNATURE and facts.buffer(arg.param).extent.claim is Claim.NOTHING
        apart = event.rule.endswith("-race") or self.is_before_begin(event)
        alone = facts.origin is PlanOrigin.HOST_CODE and not several
        return left if apart and (alone or chosen) else (arg.param, *left)

    def _left_behind(self, event: Event, arg: TensorArg) -> tuple[str, ...]:
        """Return the buffers from whose addresses an access, or one of a race, is computed, if it is not its own.

        The access left them, behind a length that may be assumed, and reached the memory of another buffer. Where its
        address may be computed from its own buffer too, as a loaded number of 64 bits may be one, only those count
        whose length is arbitrary.
        """
        unknown = {one for one, fact in self.plan.facts.buffers.items() if fact.extent.claim is Claim.NOTHING}
        memory = {one.param: one.shares or one.param for one in self.plan.args if isinstance(one, TensorArg)}
        left: dict[str, None] = {}
        for location, instruction in event.accesses:
            numbers = self._code.pointers(location, instruction)
            args = (arg for number, args in enumerate(self._parameters) for arg in args if number in numbers)
            through = [arg.param for arg in args if isinstance(arg, TensorArg)]
            own = memory[arg.param] in map(memory.get, through)
            left |= dict.fromkeys(one for one in through if one != arg.param and (not own or one in unknown))
        return tuple(left)

    def is_before_begin(self, event: Event) -> bool:
        """Return whether an access is in front of the allocation, whose begin is the address that is passed."""
        begin = self.plan.facts.buffer(event.buffer or "").begin
        before = event.rule == "memory/out-of-bounds" and event.offset is not None and -_NEAR <= event.offset < 0
        return before and begin.source is not Source.ASSUMED

    def needs_own_arrays(self, event: Event | None) -> bool:
        """Return whether an event is about arrays and barriers of the kernel, or about its outputs."""
        return event is None or (self.tensor(event) is None and event.buffer != LOCAL_MEMORY)

    def needs_block(self, event: Event | None, case: Case) -> bool:
        """Return whether an event depends on the number of threads of a block."""
        if event is None:
            return False
        if event.rule in _ARRAY_RULES and self.needs_own_arrays(event):
            # Shared arrays are declared for one number of threads.
            return True
        if self.plan.facts.own_block:
            return event.rule in _LARGER_BLOCK_RULES
        threads = math.prod(case.block)
        return event.rule in _PARTIAL_BLOCK_RULES and any(size < threads for size in case.dims.values())

    # ---- values

    def values(self, event: Event | None, case: Case, unwritten: str | None = None) -> Collection[str]:
        """Return the arguments whose values are assumed and that may decide about an event, or wrong numbers.

        ``unwritten`` is an output of which elements are not written.
        """
        assumed_values = self.plan.facts.assumed_values
        deciding = assumed_values and (self._may_differ(event, case) or self._is_written_by_values(unwritten))
        return assumed_values if deciding else ()

    def _is_written_by_values(self, output: str | None) -> bool:
        """Return whether values that the launch leaves open decide which elements of an output are written."""
        pointers = [number for number, args in enumerate(self._parameters) if output in {arg.param for arg in args}]
        writes = self._code.writes
        return any(writes[number].may_differ(self._is_open) for number in pointers if number in writes)

    def reads_pointer(self, event: Event | None) -> bool:
        """Return whether an access is one through a null pointer that was read from memory."""
        return event is not None and event.rule == "memory/null-pointer" and self._needs_values(event)

    def is_indexed_by_float(self, event: Event | None) -> bool:
        """Return whether the index of an access is computed from a floating-point number in memory."""
        if event is None or event.rule not in _FLOAT_RULES:
            return False
        # Delayed, as all of the emulator: see `case_runner`.
        from gpuemu_lsp.engine.emulator.analysis.dependence.sources import OtherSource

        location = event.location
        places = () if location is None else self._code.at(location)
        return any(OtherSource.FLOAT_INDEX in dependence.address for dependence in places)

    def _may_differ(self, event: Event | None, case: Case) -> bool:
        """Return whether with other values of the inputs, such as the program has, an error may not occur."""
        if event is not None and event.rule == "memory/uninitialized-read" and self._may_be_stored(event):
            return True
        if event is None or not (event.rule in ACCESS_RULES | _VALUE_RULES or event.rule.endswith("-race")):
            return self._holds(case, Tried.ANY, Tried.INDICES, Tried.RISING) and not self._is_made_in_any_case(event)
        return self._needs_values(event) and not self._is_race_of_one_access(event, case)

    def _needs_values(self, event: Event, *, compared: bool = False) -> bool:
        """Return whether the accesses of an event may depend on values of inputs that the launch leaves open.

        ``compared``: not through the outcome of comparisons.
        """
        if event.rule not in ACCESS_RULES and not event.rule.endswith("-race"):
            return True
        return any(one.may_differ(self._is_open, compared=compared) for one in self._of_accesses(event))

    def _is_race_of_one_access(self, event: Event, case: Case) -> bool:
        """Return whether only one access of a race depends on values, and some thread surely makes it as it did here.

        That is so where the outcome of comparisons alone decides: the race occurs as soon as one thread takes the
        branch. An index into shared memory may be any as well: it is there to access elements of other threads. Larger
        numbers than zero may be indices behind the array. So may be that of an update of shared memory: with another
        one for each thread there would be nothing to add up.
        """
        if not event.rule.endswith("-race"):
            return False
        if self._is_update(event):
            return True
        if all(one.may_differ(self._is_open) for one in self._of_accesses(event)):
            return False
        if event.rule == "memory/shared-race" and not self._holds(case, Tried.INDICES, Tried.RISING):
            return True
        return not (self._needs_values(event, compared=True) or self._may_wait(event))

    def _may_wait(self, event: Event) -> bool:
        """Return whether a counter or flag says when an access may be made, whose first value is not the program's.

        With another value in it than the program leaves there, it says nothing of what other threads have done.
        """
        from gpuemu_lsp.engine.emulator.analysis.dependence.sources import MemoryContents, OtherSource

        deciding = [access.address | access.control for access in self._of_accesses(event)]
        written = self._code.writes.keys()
        return any(
            OtherSource.AWAITED in sources
            and any(
                isinstance(memory, MemoryContents) and memory.parameter in written and self._is_open(memory)
                for memory in sources
            )
            for sources in deciding
        )

    def _is_update(self, event: Event) -> bool:
        """Return whether a race is between the load and the store of one statement that updates shared memory."""
        opcodes = {instruction.partition(".")[0] for _, instruction in event.accesses}
        same = event.rule == "memory/shared-race" and event.location == event.other and opcodes == {"ld", "st"}
        return same and event.location in self._code.updates(self._is_open)

    def _may_be_stored(self, event: Event) -> bool:
        """Return whether indices among the inputs decide which elements are stored: the one read may be among them."""
        return not self._code.scattered(self._is_open).isdisjoint(self._pointers(event))

    def _is_made_in_any_case(self, event: Event | None) -> bool:
        """Return whether the synchronization, or the read and all writes to its memory, depend on no values."""
        if event is not None and event.rule in _SYNCHRONIZATION_RULES:
            return not self._code.synchronization.may_differ(self._is_open)
        if event is None or event.rule != "memory/uninitialized-read":
            return False
        writes = self._code.writes
        made = [*self._of_accesses(event), *(writes[number] for number in self._pointers(event) if number in writes)]
        return not any(one.may_differ(self._is_open) for one in made)

    def _holds(self, case: Case, *tried: Tried) -> bool:
        """Return whether a case has other values than zeros where values are assumed and so tried."""
        values = self.plan.facts.values.items()
        return any(fact.tried in tried and case.tensors[param].any() for param, fact in values if param in case.tensors)

    # ---- the compiled code

    @property
    def _is_analysed(self) -> bool:
        """Whether the parameters of the compiled kernel are the arguments of the plan."""
        return self.plan.facts.origin in (PlanOrigin.HOST_CODE, PlanOrigin.SIGNATURE)

    @property
    def _code(self) -> KernelDependences:
        # Delayed, as all of the emulator: see `case_runner`.
        from gpuemu_lsp.engine.emulator.analysis.dependence.kernel import dependences

        return dependences(self.launch.artifact.ptx, self.launch.entry)

    def _of_accesses(self, event: Event) -> list[Dependence]:
        """Return what decides about an access, or about both accesses of a race."""
        pointers = self._pointers(event)
        return [self._code.of(location, instruction, pointers) for location, instruction in event.accesses]

    def _is_open(self, source: CodeSource) -> bool:
        """Return whether a source may be other than in a launch, in ways that its sizes do not show."""
        from gpuemu_lsp.engine.emulator.analysis.dependence.sources import (
            UNSETTLED,
            MemoryContents,
            ParameterValue,
            VariableContents,
        )

        assumed_values = self.plan.facts.assumed_values
        if isinstance(source, ParameterValue):
            return any(arg.param in assumed_values for arg in self._scalars(source))
        if isinstance(source, MemoryContents):
            args = self._parameters[source.parameter] if source.parameter < len(self._parameters) else ()
            settled = any(isinstance(arg, TensorArg) and _is_settled(arg, assumed_values) for arg in args)
            return not settled or source.offset != 0
        return isinstance(source, VariableContents) or source in UNSETTLED

    def _expressions(self, sources: Collection[CodeSource]) -> Iterator[Expression]:
        """Yield the expressions over dims that some sources are."""
        from gpuemu_lsp.engine.emulator.analysis.dependence.sources import OtherSource, ParameterValue

        for source in sources:
            if isinstance(source, ParameterValue):
                yield from (arg.value for arg in self._scalars(source) if isinstance(arg.value, Expression))
            elif source is OtherSource.GRID:
                yield from self.plan.grid

    def _scalars(self, source: ParameterValue) -> Iterator[ScalarArg]:
        """Yield the scalars that a parameter, or a member of one, is."""
        args = self._parameters[source.parameter] if source.parameter < len(self._parameters) else ()
        members = [arg for arg in args if arg.member is None or arg.member.offset == source.offset]
        yield from (arg for arg in members or args if isinstance(arg, ScalarArg))

    @property
    def _parameters(self) -> list[tuple[PlanArg, ...]]:
        by_name = {
            args[0].member.struct if args[0].member else args[0].param: args for args in parameters(self.plan.args)
        }
        return [by_name.get(name, ()) for name in self.passed_names]

    def _pointers(self, event: Event) -> list[int]:
        """Return the numbers of the parameters that point to the memory of an event."""
        numbers = [
            number
            for number, args in enumerate(self._parameters)
            for arg in args
            if isinstance(arg, TensorArg) and event.buffer in (arg.param, arg.shares)
        ]
        return numbers or [_NO_PARAMETER]


def _names(expressions: Iterable[Expression]) -> frozenset[str]:
    return frozenset[str]().union(*map(names, expressions))


def _is_settled(arg: TensorArg, hidden: Collection[str]) -> bool:
    """Return whether an input may have any values, or memory has integers that the program shows for all sizes."""
    if arg.dtype in FLOATS or arg.direction == "out":
        return arg.direction == "in"
    fixed = arg.range is not None and not any(isinstance(bound, Expression) and names(bound) for bound in arg.range)
    return fixed and arg.dtype in DISCRETE and arg.param not in hidden
