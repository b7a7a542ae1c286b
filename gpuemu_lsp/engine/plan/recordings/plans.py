"""The plan of a kernel's recorded launches."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from pathlib import Path

from gpuemu_lsp.engine.element_types import dtype_size
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.facts import RECORDED, BufferFact, Facts, PlanOrigin, SizeFact, Source, assumed
from gpuemu_lsp.engine.plan.mangled import parameter_types
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, ScalarArg, TensorArg
from gpuemu_lsp.engine.plan.recordings.arguments import (
    ArgumentPlace,
    ArgumentReader,
    MisfitError,
    float_value,
    integer_values,
)
from gpuemu_lsp.engine.plan.recordings.kernels import KernelLaunches
from gpuemu_lsp.engine.plan.recordings.ranges import value_range
from gpuemu_lsp.engine.plan.recordings.relations import Relations, relations
from gpuemu_lsp.engine.project.expressions import Expression, ExpressionError, evaluate, names, parse
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.recordings.cases import RecordedCase, RecordedLaunches, RecordedMemory
from gpuemu_lsp.engine.recordings.model import RecordedAllocation, RecordedLaunch, Site
from gpuemu_lsp.engine.recordings.reader import contents_digest
from gpuemu_lsp.engine.regular_file import file_bytes

_LARGER = 2
"""Largest size that is tried, as a multiple of the largest recorded one."""
_AXES = range(3)
_LITERALS = ("$str", "__unnamed_")
"""Begins of the names that compilers give to strings, as of ``assert``, which the code has itself."""
_ARGUMENTS = re.compile(r"<[^<>]*>")
_SCOPE = re.compile(r"\w+::")


def recorded_plan(context: KernelContext, expression: str, entry: str, found: KernelLaunches) -> Plan:
    """Return the plan of a kernel instance for its recorded launches.

    ``expression`` is its name expression and ``entry`` its mangled name.

    Raises
    ------
    MisfitError
        If the launches do not fit the kernel as it is now, or their contents are not in the recording.
    """
    now, then = parameter_types(entry), parameter_types(found.kernel.symbol)
    if now is not None and then is not None and tuple(map(_kind, now)) != tuple(map(_kind, then)):
        raise MisfitError(f"its parameters are ({', '.join(now)}), and were ({', '.join(then)})")
    launches = _with_the_same_pointers([one for one in found.launches if one.left_out is None])
    if not launches:
        raise MisfitError(found.launches[0].left_out or "their contents are not in the recording")
    places = ArgumentReader(context, found.kernel, launches).places()
    signature = _Signature(found, launches, tuple(places))
    solved = signature.relations()
    args = signature.arguments(solved)
    dims = signature.dims(solved, args)
    names_of_dims = tuple(dim.name for dim in dims)
    cases = tuple(signature.case(number, names_of_dims, args) for number in range(len(launches)))
    related = solved.solved and not signature.has_other_sizes()
    several = len({tuple(case.dims.values()) for case in cases}) > 1 and related
    sizes = {name: tuple(dict.fromkeys(case.dims[name] for case in cases)) for name in names_of_dims}
    recorded = RecordedLaunches(
        path=found.recording.path,
        cases=cases,
        sizes=sizes if several else {},
        ragged=_ragged(solved, cases),
        fixed=frozenset(one.name for one in places if one.pointer and one.raw),
    )
    seen = {name: frozenset(case.dims[name] for case in cases) for name in names_of_dims}
    facts = Facts(
        PlanOrigin.RECORDING,
        sizes={
            name: SizeFact(Source.RECORDED, values, between=name in recorded.ragged) for name, values in seen.items()
        },
        buffers={arg.param: BufferFact(extent=RECORDED, role=RECORDED) for arg in args if isinstance(arg, TensorArg)},
        relations=assumed("the recorded run does not have these sizes together"),
    )
    return Plan(
        kernel=context.spec.name,
        entry=expression,
        dtype=_dtype(args),
        args=args,
        dims=dims,
        grid=tuple(solved.expressions[f"grid.{axis}"][0] for axis in _AXES),
        block=tuple(solved.expressions[f"block.{axis}"][0] for axis in _AXES),
        shared=solved.expressions["shared"][0],
        place=context.place,
        recorded=recorded,
        facts=facts,
    )


@dataclass(frozen=True, slots=True)
class _Signature:
    """The arguments of a kernel, and their values in its recorded launches."""

    found: KernelLaunches
    launches: tuple[RecordedLaunch, ...]
    places: tuple[ArgumentPlace, ...]

    def target(self, place: ArgumentPlace, launch: RecordedLaunch) -> tuple[int, int]:
        """Return the number of the allocation that a pointer is of, and the byte in it."""
        return next((one.allocation, one.target) for one in launch.pointers if one.offset == place.offset)

    def elements(self, place: ArgumentPlace, launch: RecordedLaunch) -> int:
        """Return the number of whole elements of the allocation that a pointer is of."""
        size = launch.allocations[self.target(place, launch)[0]].size
        return max(size // dtype_size(place.element.dtype), 1)

    def integers(self) -> dict[str, list[int]]:
        """Return the values of the integer arguments."""
        found = ((one.name, integer_values(one, self.launches)) for one in self.places)
        return {name: values for name, values in found if values is not None}

    def has_other_sizes(self) -> bool:
        """Return whether integers in structs differ between the launches: they may be sizes, and are never solved."""
        integers = self.integers()
        return any(len(set(integers.get(one.name, ()))) > 1 for one in self.places if one.member is not None)

    def relations(self) -> Relations:
        """Solve the sizes."""
        pointers = [one for one in self.places if one.pointer]
        lengths = {one.name: [self.elements(one, launch) for launch in self.launches] for one in pointers}
        others: dict[str, list[int]] = {"shared": [one.shared_bytes for one in self.launches]}
        for axis in _AXES:
            others[f"grid.{axis}"] = [one.grid[axis] for one in self.launches]
            others[f"block.{axis}"] = [one.block[axis] for one in self.launches]
        for one in pointers:
            others[f"offset:{one.name}"] = [self.target(one, launch)[1] for launch in self.launches]
        scalars = {name: values for name, values in self.integers().items() if name.isidentifier()}
        return relations(scalars, lengths, others, [launch.block for launch in self.launches])

    def arguments(self, solved: Relations) -> tuple[PlanArg, ...]:
        """Return the arguments: pointers with the extents of their allocations, scalars with their values."""
        integers, used = self.integers(), _used(solved)
        numbers = {
            one.name: tuple(self.target(one, launch)[0] for launch in self.launches)
            for one in self.places
            if one.pointer
        }
        written = {numbers[one.name][0] for one in self.places if one.pointer and not one.const}
        first: dict[tuple[int, ...], str] = {}
        args: list[PlanArg] = []
        for place in self.places:
            if place.pointer:
                of = numbers[place.name]
                shares = first.get(of)
                first.setdefault(of, place.name)
                args.append(self._tensor(place, of, of[0] in written, shares, solved))
                continue
            values = integers.get(place.name)
            value: Expression | float | bool
            if values is None and place.element.dtype == "bool":
                value = bool(self.launches[0].parameters[place.offset])
            elif values is None:
                value = float_value(place, self.launches[0])
            elif solved.names.get(place.name) in used:
                value = parse(solved.names[place.name])
            else:
                value = values[0]
            args.append(ScalarArg(place.name, place.name, place.element.dtype, value, place.member))
        return tuple(args)

    def _tensor(
        self, place: ArgumentPlace, numbers: Sequence[int], written: bool, shares: str | None, solved: Relations
    ) -> TensorArg:
        memories = [launch.allocations[number] for launch, number in zip(self.launches, numbers, strict=True)]
        known = any(memory.before is not None for memory in memories)
        offset = solved.expressions[f"offset:{place.name}"][0]
        return TensorArg(
            param=place.name,
            key=place.name,
            direction="out" if not known else "inout" if written else "in",
            dtype=place.element.dtype,
            shape=solved.expressions[place.name],
            range=None if place.raw else self._range(place, memories, solved),
            lanes=place.element.lanes,
            member=place.member,
            pointer_offset=None if str(offset) == "0" else offset,
            shares=shares,
        )

    def _range(
        self, place: ArgumentPlace, memories: Sequence[RecordedAllocation], solved: Relations
    ) -> tuple[Expression | float, Expression | float] | None:
        integers = self.integers()
        bounds = {name: integers[name] for name in _used(solved)}
        for other in self.places:
            extents = solved.expressions.get(other.name, ()) if other.pointer else ()
            if len(extents) == 1 and names(extents[0]):
                bounds.setdefault(str(extents[0]), [self.elements(other, launch) for launch in self.launches])
        return value_range(self.found.recording.path, place.element.dtype, memories, bounds)

    def dims(self, solved: Relations, args: Sequence[PlanArg]) -> tuple[DimSpec, ...]:
        """Return the sizes, in the order of the signature."""
        integers, used = self.integers(), _used(solved)
        return tuple(DimSpec(arg.param, 1, _LARGER * max(integers[arg.param])) for arg in args if arg.param in used)

    def case(self, number: int, dims: Sequence[str], args: Sequence[PlanArg]) -> RecordedCase:
        """Return one launch."""
        launch, integers, recording = self.launches[number], self.integers(), self.found.recording
        sizes = {name: integers[name][number] for name in dims}
        pointers = {one.name: self.target(one, launch) for one in self.places if one.pointer}
        shapes = {
            arg.param: _shape(arg, sizes, self.elements(place, launch))
            for place, arg in zip(self.places, args, strict=True)
            if isinstance(arg, TensorArg)
        }
        taken = {of for of, _ in pointers.values()}
        return RecordedCase(
            digest=launch.digest,
            dims=sizes,
            scalars={
                one.name: launch.parameters[one.offset : one.offset + one.size].hex()
                for one in self.places
                if not one.pointer
            },
            tensors={name: _memory(launch.allocations[of]) for name, (of, _) in pointers.items()},
            shapes=shapes,
            offsets={name: byte for name, (_, byte) in pointers.items()},
            reachable=tuple(
                _memory(one)
                for at, one in enumerate(launch.allocations)
                if at not in taken and not (one.variable or "").startswith(_LITERALS)
            ),
            grid=launch.grid,
            block=launch.block,
            shared_bytes=launch.shared_bytes,
            text=f"{recording.program}{_at(launch.site)}",
            unchanged=_is_unchanged(self.found),
        )


def _with_the_same_pointers(launches: Sequence[RecordedLaunch]) -> tuple[RecordedLaunch, ...]:
    """Return the launches with most in common: those that pass pointers at the same places.

    Others pass null for one of them, or have in the unused part of a struct what was an address by chance.
    """
    places = [frozenset(pointer.offset for pointer in one.pointers) for one in launches]
    if not places:
        return ()
    usual = max(dict.fromkeys(places), key=places.count)
    return tuple(one for one, offsets in zip(launches, places, strict=True) if offsets == usual)


def _kind(parameter: str) -> str:
    """Return a parameter's type without what another compiler's headers may spell differently.

    These are the namespaces and arguments of a library's class, and which of two integer types of 64 bits ``int64_t``
    is. Sizes are compared when the arguments are read.
    """
    text = parameter.replace("long long", "long")
    while (inner := _ARGUMENTS.sub("", text)) != text:
        text = inner
    return _SCOPE.sub("", text)


def _used(solved: Relations) -> frozenset[str]:
    """Return the arguments on which a size depends."""
    return frozenset().union(*(names(one) for each in solved.expressions.values() for one in each))


def _shape(arg: TensorArg, sizes: Mapping[str, int], elements: int) -> tuple[int, ...]:
    """Return the extents of a tensor whose number of elements is known."""
    try:
        shape = tuple(evaluate(extent, sizes) for extent in arg.shape)
    except ExpressionError:
        return (elements,)
    return shape if prod(shape) == elements else (elements,)


def _memory(allocation: RecordedAllocation) -> RecordedMemory:
    return RecordedMemory(
        address=allocation.address,
        size=allocation.size,
        before=allocation.before,
        initialised=allocation.initialised,
        after=allocation.after,
        addresses=allocation.addresses,
        variable=allocation.variable,
        description=f"{allocation.size} bytes{_at(allocation.site, ', allocated at ')}",
    )


def _at(site: Site | None, before: str = ", ") -> str:
    return "" if site is None else f"{before}{Path(site.path).name}:{site.line}"


def _ragged(solved: Relations, cases: Sequence[RecordedCase]) -> frozenset[str]:
    """Return the dims that a launch rounds up to whole blocks, in some launch with a remainder."""
    found = set()
    for axis in _AXES:
        text = str(solved.expressions[f"grid.{axis}"][0])
        name, _, width = text.removeprefix("ceil_div(").rstrip(")").partition(", ")
        covers = text.startswith("ceil_div(") and name.isidentifier() and width.isdecimal()
        if covers and any(case.dims[name] % int(width) for case in cases):
            found.add(name)
    return frozenset(found)


def _is_unchanged(found: KernelLaunches) -> bool:
    """Return whether the file of the kernel has the text that it had when it was recorded."""
    try:
        return contents_digest(file_bytes(found.kernel.source or "")) == found.kernel.digest
    except OSError:
        return False


def _dtype(args: Sequence[PlanArg]) -> str:
    """Return the dtype under which the kernel is checked: that of its outputs, else of its arguments."""
    tensors = [arg for arg in args if isinstance(arg, TensorArg)]
    outputs = [arg for arg in tensors if arg.direction != "in"]
    floats = [arg for arg in (*outputs, *tensors) if "float" in arg.dtype]
    return next((arg.dtype for arg in (*floats, *outputs, *tensors, *args)), "float32")
