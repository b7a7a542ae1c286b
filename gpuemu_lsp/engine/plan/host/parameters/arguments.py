"""Arguments of a plan, one for each parameter or member of a struct."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from gpuemu_lsp.engine.element_types import DISCRETE, ElementType, element_type
from gpuemu_lsp.engine.hostcode.arithmetic import low_bits
from gpuemu_lsp.engine.hostcode.objects import CONSTANTS
from gpuemu_lsp.engine.hostcode.values import FloatValue, RecordValue, Unknown, Value
from gpuemu_lsp.engine.plan.facts import Source, ValueFact
from gpuemu_lsp.engine.plan.host.parameters.builder import Building
from gpuemu_lsp.engine.plan.host.parameters.pointers import tensor
from gpuemu_lsp.engine.plan.model import PlanArg, ScalarArg, StructMember, TensorArg
from gpuemu_lsp.engine.plan.struct_arguments import StructParam
from gpuemu_lsp.engine.plan.struct_layout import Leaf
from gpuemu_lsp.engine.plan.textures.objects import is_object, object_argument
from gpuemu_lsp.engine.project.expressions import Expression, parse
from gpuemu_lsp.engine.source.model import Param
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import Size, divide


def arguments(building: Building, param: Param, value: Value) -> Iterator[PlanArg]:
    """Yield the argument of a parameter, one for each member of a struct; none if it is not known."""
    context = building.context
    known = element_type(param.type, context.type_aliases)
    if is_object(param):
        building.unjudged.add(param.name)
        yield object_argument(context, param, _threads(building))
        return
    if param.pointer_depth > 1:
        yield from _pointers(building, param, value)
        return
    if param.pointer:
        yield from tensor(building, param.name, known or ElementType("uint8"), known is None, param.const, value)
        return
    enum = context.source.structs.get(param.type.split("::")[-1])
    if known is None and enum is not None and enum.kind == "enum":
        yield _enumerator(building, param, element_type(enum.fields[0].type, context.type_aliases), value)
        return
    if known is None and isinstance(value, RecordValue) and value.type in CONSTANTS:
        yield ScalarArg(param.name, param.name, "uint8", parse(0))  # an object without members
        return
    struct = StructParam.of(context, param)
    if struct is not None:
        if struct.layout is not None and not struct.layout.leaves:
            yield ScalarArg(param.name, param.name, "uint8", parse(0))  # an object without members
        elif struct.layout is not None:
            for leaf in struct.layout.leaves:
                made = list(_member(building, param.name, leaf, value))
                if not made:
                    return
                yield from (
                    replace(arg, member=StructMember(param.name, leaf.offset, struct.layout.size)) for arg in made
                )
        return
    if known is None or known.lanes != 1:
        return
    yield _scalar(building, param.name, known.dtype, value)


def _pointers(building: Building, param: Param, value: Value) -> Iterator[PlanArg]:
    """Yield memory with null pointers: those that the program stores are not known. A kernel may only write them."""
    for arg in tensor(building, param.name, ElementType("uint64"), False, param.const, value):
        building.values[param.name] = ValueFact(Source.ASSUMED)
        yield replace(arg, range=(parse(0), parse(1))) if isinstance(arg, TensorArg) else arg


def _enumerator(building: Building, param: Param, known: ElementType | None, value: Value) -> ScalarArg:
    """Return an enumerator; the first one, which is mostly 0, if the host code does not show which."""
    shown = isinstance(value, Size) and value.constant is not None
    if not shown:
        building.values[param.name] = ValueFact(Source.ASSUMED)
    number_ = value.constant if isinstance(value, Size) else None
    return ScalarArg(param.name, param.name, known.dtype if known is not None else "int32", parse(number_ or 0))


def _threads(building: Building) -> list[Expression]:
    """Return the threads of the launch along each axis that has any."""
    launch = building.found.launch
    pairs = zip(launch.grid, launch.block, strict=False)
    extents = [(building.expression(grid), building.expression(block)) for grid, block in pairs if grid and block]
    return [parse(f"({grid}) * ({block})") for grid, block in extents]


def _member(building: Building, name: str, leaf: Leaf, value: Value) -> Iterator[PlanArg]:
    inner = value
    for part in re.findall(r"\w+|\[\d+\]", leaf.path):
        inner = inner.fields.get(part, Unknown()) if isinstance(inner, RecordValue) else Unknown()
    path = f"{name}.{leaf.path}"
    if leaf.pointer_depth == 1:
        yield from tensor(building, path, leaf.element or ElementType("uint8"), leaf.element is None, leaf.const, inner)
    elif leaf.pointer_depth == 0 and leaf.element is not None and leaf.element.lanes == 1:
        yield _scalar(building, path, leaf.element.dtype, inner)


def _scalar(building: Building, name: str, dtype: str, value: Value) -> ScalarArg:
    if dtype in DISCRETE:
        if isinstance(value, Condition) and value.value is not None:
            return ScalarArg(name, name, dtype, value.value if dtype == "bool" else parse(int(value.value)))
        if isinstance(value, FloatValue) and value.top is not None and value.bottom is not None:
            value = divide(value.top, value.bottom)
        if isinstance(value, Size) and not (building.few and building.is_unknown(value)):
            if dtype == "bool":
                return ScalarArg(name, name, dtype, (value.constant or 0) != 0)
            return ScalarArg(name, name, dtype, building.expression(low_bits(value, dtype)))
        if dtype == "bool":
            return ScalarArg(name, name, dtype, True)
        # An integer that the host code does not show may be anything: no claim holds for it.
        building.values[name] = ValueFact(Source.ASSUMED)
        return ScalarArg(name, name, dtype, parse(1))
    number_ = value.value if isinstance(value, FloatValue) else None
    if isinstance(value, Size):
        number_ = None if value.constant is None else float(value.constant)
    return ScalarArg(name, name, dtype, 0.5 if number_ is None else number_)
