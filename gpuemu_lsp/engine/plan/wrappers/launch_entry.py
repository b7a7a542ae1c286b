"""The entry of a kernel that follows from one launch with symbolic arguments."""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field, replace

from tree_sitter import Node

from gpuemu_lsp.engine.findings import Range
from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.state import HostRun
from gpuemu_lsp.engine.hostcode.values import (
    Allocation,
    DataType,
    FloatValue,
    HostLaunch,
    Pointer,
    StringValue,
    Tensor,
    Undetermined,
    Unknown,
    Value,
    is_null,
)
from gpuemu_lsp.engine.hostcode.walk import written
from gpuemu_lsp.engine.plan.wrappers.inferred_kernel import InferredKernel, MissingLaunch
from gpuemu_lsp.engine.plan.wrappers.kernel_accesses import KernelAccesses, parameter_names
from gpuemu_lsp.engine.plan.wrappers.launch_relations import LaunchRelations
from gpuemu_lsp.engine.plan.wrappers.launch_sizes import (
    divisor,
    exact,
    named,
    notes_of,
    renamed,
    rounded_up,
    substituted,
)
from gpuemu_lsp.engine.project.expressions import Expression, constant, names, parse
from gpuemu_lsp.engine.project.model import (
    ConstexprValue,
    DimSpec,
    KernelSpec,
    LaunchSpec,
    PointerSpec,
    PythonValue,
    ScalarSpec,
)
from gpuemu_lsp.engine.source.python.syntax import text_of
from gpuemu_lsp.engine.symbolic.bounds import ANY
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.expressions import expression_of, size_of
from gpuemu_lsp.engine.symbolic.size import ZERO, Size, extreme, product, substitute, symbols

_OPTIONS = ("num_warps", "num_stages")
_IGNORED = frozenset({*_OPTIONS, "num_ctas", "maxnreg", "warmup", "stream", "enable_fp_fusion", "launch_pdl"})
_LARGEST = (2048, 160, 48, 24, 12, 8, 6, 4, 4, 4)
"""Largest size by the number of sizes that the launch depends on: a check takes seconds."""
_UNKNOWN_TILE = 128
"""Size of tiles that an autotuner or a size determines."""
_TOO_MANY = "independent sizes"
_MOST_SHOWN = 3
"""Missing values that a message names."""


@dataclass(slots=True)
class LaunchEntry:
    """Construction of the entry from one launch."""

    spec: KernelSpec
    kernel: Node
    launch: HostLaunch
    reached: HostRun
    relations: LaunchRelations
    accesses: KernelAccesses
    function: str
    args: dict[str, PointerSpec | ScalarSpec] = field(default_factory=dict)
    constexprs: dict[str, tuple[ConstexprValue, ...]] = field(default_factory=dict)
    storages: dict[str, int] = field(default_factory=dict)
    """Allocations by parameter."""
    alike: set[int] = field(default_factory=set)
    """Allocations whose sizes are assumed to be those of others of the same rank."""
    assumed: set[str] = field(default_factory=set)
    """Tensors whose elements are part of addresses, and are not known."""
    missing: list[str] = field(default_factory=list)
    scalars: list[Size] = field(default_factory=list)
    flags_assumed: bool = False
    """A flag has both values, of which the program may use one with these tensors: outputs may stay unwritten."""

    def inferred(self) -> InferredKernel | MissingLaunch:
        """Return the entry, or what the launch does not determine."""
        found = self._entry()
        if isinstance(found, MissingLaunch) and _TOO_MANY in found.reason:
            # Tensors of one rank mostly have one shape; their extents stay assumed.
            self._equal_shapes()
            self.args, self.constexprs, self.storages = {}, {}, {}
            self.missing, self.scalars, self.assumed = [], [], set()
            found = self._entry()
        return found

    def _equal_shapes(self) -> None:
        given = [each for each in self.storages.values() if self._memory(each).space == "parameter"]
        for index, each in enumerate(given):
            rank = len(self._memory(each).sizes or ())
            first = next((other for other in given[:index] if len(self._memory(other).sizes or ()) == rank), None)
            if first is not None:
                shapes = [self._shape(tensor) for tensor in (first, each)]
                self.alike |= {each} if shapes[0] != shapes[1] else set()
                equal = (Condition(None, "==", *pair) for pair in zip(*shapes, strict=True))
                self.relations = self.relations.assume(equal)

    def _memory(self, allocation: int) -> Allocation:
        return self.launch.memory[allocation]

    def _shape(self, allocation: int) -> tuple[Size, ...]:
        return tuple(map(self.relations.resolved, self._memory(allocation).sizes or ()))

    def _entry(self) -> InferredKernel | MissingLaunch:
        params = self._constexpr_params()
        given = self._given()
        if "**" in self.launch.keywords:
            return MissingLaunch("the arguments that the launch passes with `**`")
        for name in params:
            if name in given:
                self._argument(name, given[name], params[name])
        self._bound_indices()
        grid = self._grid()
        if self.missing or grid is None:
            missing = tuple(dict.fromkeys(self.missing))
            more = f" and {len(missing) - _MOST_SHOWN} more values" if len(missing) > _MOST_SHOWN else ""
            return MissingLaunch(f"{', '.join(missing[:_MOST_SHOWN])}{more}")
        return self._result(grid)

    def _constexpr_params(self) -> dict[str, bool]:
        """Return the parameters of the kernel, True for those that are compiled in."""
        found = dict.fromkeys(parameter_names(self.kernel), False)
        params = self.kernel.child_by_field_name("parameters")
        for node in params.named_children if params is not None else ():
            kind = node.child_by_field_name("type")
            name = node.child_by_field_name("name") or (node.named_children[0] if node.named_children else None)
            if kind is not None and name is not None and "constexpr" in text_of(kind):
                found[text_of(name)] = True
        return found

    def _given(self) -> dict[str, Value]:
        names_ = parameter_names(self.kernel)
        given = dict(zip(names_, self.launch.arguments, strict=False))
        return given | {name: value for name, value in self.launch.keywords.items() if name not in _IGNORED}

    def _argument(self, name: str, value: Value, constexpr: bool) -> None:
        if isinstance(value, Undetermined):
            # The host code may compare a tensor with a number, as it does numbers; the kernel reads memory there.
            is_number = value.tensor.allocation not in self.reached.tensors and name not in self._pointers()
            value = value.number if constexpr or is_number else value.tensor
        if isinstance(value, Size):
            self._number(name, self.relations.resolved(value), constexpr)
        elif isinstance(value, Tensor) and value.sizes is not None:
            self._tensor(name, value)
        elif isinstance(value, FloatValue):
            self._constant(name, 1.0 if value.value is None else value.value, constexpr)
        elif isinstance(value, Condition) and value.value is not None:
            self._constant(name, value.value, constexpr)
        elif isinstance(value, StringValue):
            self.constexprs[name] = (PythonValue(f"'{value.text}'"),)
        elif is_null(value):
            self.constexprs[name] = (PythonValue("None"),)
        elif isinstance(value, DataType) and value.module == "triton":
            self.constexprs[name] = (PythonValue(f"tl.{value.name}"),)
        elif constexpr and isinstance(value, Unknown) and isinstance(value.code, ir.NameUse):
            self.constexprs[name] = (True, False)
            self.flags_assumed = True
        else:
            code = value.code if isinstance(value, Unknown) else None
            self._missing(name, code)

    def _pointers(self) -> Set[str]:
        accesses = self.accesses
        return (accesses.loaded | accesses.stored | accesses.atomic) - accesses.numbers

    def _number(self, name: str, value: Size, constexpr: bool) -> None:
        if not self._is_known(value):
            self._missing(name)
            return
        self.scalars.append(value)
        if constexpr:
            self.constexprs[name] = (expression_of(value),)
        else:
            self.args[name] = ScalarSpec(expression_of(value))

    def _constant(self, name: str, value: float | bool, constexpr: bool) -> None:
        if constexpr:
            self.constexprs[name] = (value,)
        else:
            self.args[name] = ScalarSpec(value)

    def _is_known(self, value: Size) -> bool:
        """Return whether a size depends on nothing but what callers pass."""
        known = self.reached.symbols
        return all(name not in known or known[name].origin == "parameter" for name in symbols(value))

    def _written(self, name: str) -> ir.Expression | None:
        """Return the argument of a parameter as the launch has it."""
        code = self.launch.code
        if code is None:
            return None
        by_position = dict(zip(parameter_names(self.kernel), code.arguments, strict=False))
        return dict(code.keywords).get(name, by_position.get(name))

    def _missing(self, name: str, code: ir.Expression | None = None) -> None:
        """Note that the value of a parameter is not known: that of an expression, if not of the argument itself."""
        texts = (written(node) for node in (code, self._written(name)) if node is not None)
        text = next(filter(None, texts), name).replace("::", ".")
        self.missing.append(f"`{text}`, which is passed as `{name}`")

    def _tensor(self, name: str, tensor: Tensor) -> None:
        accesses, memory = self.accesses, self._memory(tensor.allocation)
        direction = "in"
        compare = "elements"
        if name in accesses.stored or name in accesses.unknown:
            direction = "out" if self._is_fresh(tensor.allocation) and name not in accesses.unknown else "inout"
            compare = "none" if direction == "inout" or name in accesses.loaded else "elements"
        elif not accesses.uses(name) and self._is_result(tensor.allocation):
            direction = "out"
        dtype = memory.dtype
        if not dtype and name in accesses.masks - accesses.ordered:
            dtype = "bool"
        low, high = memory.contents.low, memory.contents.high
        bounds = None
        if low is not None and high is not None and dtype.startswith(("int", "uint")):
            bounds = expression_of(low), expression_of(high)
        extents = self._shape(tensor.allocation)
        if tensor.offset != ZERO:
            # The part of the storage from the first element of the view on.
            extents = (self.relations.resolved(product(memory.sizes or ()) - tensor.offset),)
            direction, compare = ("in", compare) if direction == "in" else ("inout", "none")
        if not all(map(self._is_known, extents)):
            self._missing(name)
            return
        strides: tuple[Size, ...] = ()
        if tensor == self.reached.laid_out.get(tensor.allocation):
            both = tensor.sizes or (), tensor.strides or ()
            extents, strides = (tuple(map(self.relations.resolved, each)) for each in both)
        self.storages[name] = tensor.allocation
        self.args[name] = PointerSpec(
            direction,
            tuple(map(expression_of, extents)),
            range=bounds,
            dtype=dtype or None,
            compare=compare,
            strides=tuple(map(expression_of, strides)),
        )

    def _is_result(self, allocation: int) -> bool:
        """Return whether the function returns some memory that nothing but this launch may write to."""
        return allocation in self.reached.returned and self._is_fresh(allocation)

    def _is_fresh(self, allocation: int) -> bool:
        """Return whether only this launch writes to some memory."""
        passed = [
            launch
            for launch in self.reached.launches
            for value in (*launch.arguments, *launch.keywords.values())
            if isinstance(value, Tensor | Pointer) and value.allocation == allocation
        ]
        alone = allocation not in self.reached.written and len(passed) <= 1
        return self._memory(allocation).contents.kind == "none" and alone

    def _bound_indices(self) -> None:
        """Bound the elements that are part of addresses, where the program does not, by what they index.

        The caller determines which they are, so that nothing is claimed about accesses that depend on them.
        """
        for name in sorted(self.accesses.indices & set(self.storages)):
            argument = self.args[name]
            if not isinstance(argument, PointerSpec) or argument.range is not None:
                continue
            indexed = [self.args[each] for each in sorted(self.accesses.indexed[name] & set(self.storages))]
            # An index is below the smallest extent, whichever axis it is for; seldom for one of constant extent.
            extents = [size_of(size, 1) for each in indexed if isinstance(each, PointerSpec) for size in each.shape]
            extents = [extent for extent in extents if extent.constant is None] or extents
            if not extents:
                self.missing.append(f"the values of `{name}`, which are part of addresses")
                continue
            least = expression_of(extreme("min", *extents))
            self.args[name] = replace(argument, range=(parse(0), least), dtype=argument.dtype or "int64")
            self.assumed.add(name)

    def _grid(self) -> tuple[Size, ...] | None:
        sizes = [self.relations.resolved(size) for size in self.launch.grid if size is not None]
        if len(sizes) < len(self.launch.grid) or not all(map(self._is_known, sizes)):
            code = self.launch.code
            self.missing.append(f"the grid: `{(written(code.grid) if code is not None else '') or 'its value'}`")
            return None
        return tuple(sizes)

    def _result(self, grid: tuple[Size, ...]) -> InferredKernel | MissingLaunch:
        used = frozenset().union(*map(symbols, (*self.scalars, *grid)))
        uncertain = self._uncertain(used)
        tuned = self._tuned()
        dims_used = self._dims(grid) - tuned
        if len(dims_used) > len(_LARGEST):
            return MissingLaunch(f"the {len(dims_used)} {_TOO_MANY} of the launch")
        rename = self._names(dims_used)
        grid = tuple(substitute(one, rename) for one in grid)
        args = {name: renamed(one, rename) for name, one in self.args.items()}
        if self.flags_assumed:
            args = {
                name: replace(one, compare="none") if isinstance(one, PointerSpec) else one
                for name, one in args.items()
            }
        constexprs = {
            name: tuple(substituted(one, rename) if isinstance(one, Expression) else one for one in values)
            for name, values in self.constexprs.items()
        }
        conditions = tuple(self.relations.conditions())
        understood = not self.relations.partial and all(_dims_of(one) <= dims_used for one in conditions)
        free = self._free() & dims_used if understood else dims_used
        free = frozenset(str(rename.get(name, name)) for name in free)
        # A bound in the kernel, as in ``offsets < n``, is for sizes that the tile does not divide.
        bounds = {str(one.value) for name in self.accesses.bounds if isinstance(one := args.get(name), ScalarSpec)}
        renamed_dims = {name: str(rename.get(name, name)) for name in sorted(dims_used)}
        dims = self._dim_specs(renamed_dims, grid, constexprs, bounds)
        options = {name: self._option(name) for name in _OPTIONS}
        spec = replace(
            self.spec,
            dims={one.name: one for one in dims},
            args=args,
            constexprs=constexprs,
            launch=LaunchSpec(
                grid=tuple(map(expression_of, grid)), num_warps=options["num_warps"], num_stages=options["num_stages"]
            ),
        )
        everything = [one for values in constexprs.values() for one in values if isinstance(one, Expression)]
        any_value = rounded_up((*grid, *(size_of(one, 1) for one in everything))) | exact(grid) | bounds
        any_value |= {str(rename.get(name, name)) for name in self._compared()}
        notes = notes_of(spec, uncertain)
        whole = [number for one in everything if (number := constant(one)) is not None]
        tile = _UNKNOWN_TILE if self._tuned() or len(whole) < len(everything) else max(whole, default=1)
        return InferredKernel(
            spec,
            notes,
            frozenset(uncertain),
            any_value & set(spec.dims or ()),
            self.function,
            self._range(),
            tile=max(tile, 1),
            free=free,
            conditions=tuple(
                (sign, expression_of(substitute(left, rename)), expression_of(substitute(right, rename)))
                for sign, left, right in conditions
            ),
            origins=self._origins(dims_used, rename),
            assumed_indices=frozenset(self.assumed),
        )

    def _origins(self, dims: Iterable[str], rename: Mapping[str, Size]) -> dict[str, frozenset[str]]:
        equal = {name: self.relations.resolved(named(name)) for name in self.relations.known.equal}
        return {
            str(rename.get(dim, dim)): frozenset({dim, *(one for one, value in equal.items() if str(value) == dim)})
            for dim in dims
        }

    def _range(self) -> Range:
        code, line = self.launch.code, self.launch.line
        if code is None:
            return Range.of(line, 0, line, 0)
        span = code.span
        return Range.of(line, span.column, line + span.end_line - span.line, span.end_column)

    def _free(self) -> frozenset[str]:
        """Return the numbers of the caller that nothing in the function relates to the extents of its tensors.

        A comparison that the function asserts says which numbers it expects.
        """
        used = frozenset(self.reached.tensors.values())
        passed = [
            each
            for each in self.storages.values()
            if self._memory(each).space == "parameter" or self._memory(each).name in used
        ]
        extents = frozenset().union(*(symbols(size) for each in passed for size in self._shape(each)))
        return frozenset(self.relations.numbers) - extents - self._compared()

    def _compared(self) -> frozenset[str]:
        """Return the numbers of the caller that the function compares with sizes."""
        return frozenset(self.relations.numbers).intersection(
            frozenset().union(*map(_dims_of, self.relations.conditions()))
        )

    def _tuned(self) -> frozenset[str]:
        """Return the parameters that the launch does not set: an autotuner or heuristics do."""
        return frozenset(name for name in self._constexpr_params() if name not in self._given())

    def _uncertain(self, used: frozenset[str]) -> set[str]:
        """Return the tensors whose extents are assumed; those without any get the shape of another tensor."""
        known = [name for name, one in self.storages.items() if self._is_certain(one, used)]
        uncertain: set[str] = set()
        for name, _storage in self.storages.items():
            if name in known:
                continue
            uncertain.add(name)
            argument = self.args[name]
            if isinstance(argument, PointerSpec) and not frozenset().union(*map(names, argument.shape)) & used:
                sizes = [self.args[one] for one in known]
                shapes = [one.shape for one in sizes if isinstance(one, PointerSpec)]
                longest = max(shapes, key=len, default=(parse("n"),))
                whole = expression_of(product(size_of(one, 1) for one in longest))
                self.args[name] = replace(argument, shape=(whole,), compare="none")
        return uncertain

    def _is_certain(self, allocation: int, used: frozenset[str]) -> bool:
        memory = self._memory(allocation)
        if (memory.exact or allocation in self.reached.ranked) and allocation not in self.alike:
            return True
        if len(memory.sizes or ()) != 1:
            return False
        own = symbols(self._shape(allocation)[0])
        return bool(own & used) and own >= (used & self._extents())

    def _extents(self) -> frozenset[str]:
        """Return the dims that are extents of tensors."""
        return frozenset().union(*(symbols(size) for each in self.storages.values() for size in self._shape(each)))

    def _dims(self, grid: Sequence[Size]) -> frozenset[str]:
        shapes = [one for arg in self.args.values() if isinstance(arg, PointerSpec) for one in arg.shape]
        return frozenset().union(*map(symbols, (*self.scalars, *grid)), *map(names, shapes))

    def _names(self, dims: Iterable[str]) -> dict[str, Size]:
        """Return names for dims: those of the variables to which extents are assigned, where that is unambiguous."""
        preferred = self.relations.variables
        taken: dict[str, str] = {}
        constexprs = {name for name, one in self._constexpr_params().items() if one}
        for dim in sorted(dims):
            name = preferred.get(dim, dim)
            own = [str(one) for one in self.constexprs.get(name, ())]
            if name in taken.values() or name in dims or (name in constexprs and own != [dim]):
                continue
            taken[dim] = name
        return {dim: named(name) for dim, name in taken.items() if dim != name}

    def _dim_specs(
        self,
        dims: Mapping[str, str],
        grid: Sequence[Size],
        constexprs: Mapping[str, tuple[ConstexprValue, ...]],
        bounds: Container[str],
    ) -> list[DimSpec]:
        largest = _LARGEST[max(len(dims), 1) - 1]
        compiled = {str(one) for values in constexprs.values() for one in values if isinstance(one, Expression)}
        lengths = {str(one) for name in self.accesses.lengths for one in constexprs.get(name, ())}
        found = []
        known = self.relations.known
        for dim, name in dims.items():
            limit, times = known.ranges.get(dim, ANY), known.divisors.get(dim, 1)
            minimum = max(int(limit.low), 1) if limit.low > 1 else 1
            maximum = int(limit.high) if limit.high < math.inf else None
            step = divisor(grid, name)
            multiple = times if name in bounds else max(times, step)
            most = max(largest, 4 * step, 4 * multiple, minimum)
            choices = tuple(sorted(one for one in known.choices.get(dim, ()) if one > 0))
            if not choices and name in compiled:
                # A compile-time size is mostly the length of tl.arange, a power of two; else that of a window.
                usual = (16, 32, 64, 128) if name in lengths else (1, 2, 3)
                choices = tuple(one for one in usual if one <= (maximum or 128))
            if choices:
                found.append(DimSpec(name, min(choices), max(choices), choices, 1, choices))
                continue
            most = min(most, maximum or most)
            low = -(-minimum // multiple) * multiple
            found.append(DimSpec(name, low, max(most // multiple * multiple, low), multiple_of=multiple))
        return found

    def _option(self, name: str) -> tuple[int, ...]:
        value = self.launch.keywords.get(name)
        number = value.constant if isinstance(value, Size) else None
        return (number,) if number is not None else ()


def _dims_of(condition: tuple[str, Size, Size]) -> frozenset[str]:
    _, left, right = condition
    return symbols(left) | symbols(right)
