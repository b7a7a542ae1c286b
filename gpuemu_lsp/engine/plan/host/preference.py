"""Which of several launches are of an instance of a kernel, and which of them says most about it."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Mapping

from gpuemu_lsp.engine.element_types import element_type
from gpuemu_lsp.engine.hostcode.objects import CONSTANTS
from gpuemu_lsp.engine.hostcode.values import FloatValue, HostLaunch, Pointer, RecordValue, Value
from gpuemu_lsp.engine.plan.context import TYPE_KINDS, KernelContext
from gpuemu_lsp.engine.plan.host.chosen_launches import ReadHostLaunch
from gpuemu_lsp.engine.source.model import Param
from gpuemu_lsp.engine.symbolic.conditions import Condition
from gpuemu_lsp.engine.symbolic.size import Size, TooComplexError, number, substitute, symbols

_USUAL = 1024
_NO_CLASSES = CONSTANTS | {"", "list", "array", "vector"}
_TRUTH = {"true": "1", "false": "0"}
_COMPARISONS: dict[str, Callable[[int, int], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "==": operator.eq, "!=": operator.ne,
}  # fmt: skip


def template_of(context: KernelContext, launch: HostLaunch) -> tuple[str, ...]:
    """Return the template arguments of a launch, those included that its arguments determine."""
    given = list(launch.template)
    for parameter in context.declaration.template[len(given) :]:
        found = ""
        for param, value in zip(context.declaration.params, launch.arguments, strict=False):
            if param.pointer and param.type == parameter.name and isinstance(value, Pointer):
                found = value.type
            elif param.type == parameter.name and isinstance(value, RecordValue) and value.type not in _NO_CLASSES:
                found = f"{value.type}<{', '.join(value.template)}>" if value.template else value.type
            elif isinstance(value, RecordValue) and value.type in CONSTANTS:
                given_ = value.fields["value"]
                last = param.type.rstrip("> ").rpartition("<")[2].rpartition(",")[2].strip()
                if last == parameter.name and isinstance(given_, Size) and given_.constant is not None:
                    found = str(given_) if parameter.kind != "bool" else str(bool(given_.constant)).lower()
        if not found:
            break
        given.append(found)
    return tuple(given)


def may_be_overload(context: KernelContext, launch: HostLaunch) -> bool:
    """Return whether a launch may be of this one of the kernels of its name, by its template and other arguments."""
    params, template = context.declaration.params, context.declaration.template
    if len(context.overloads) == 1:
        return True
    fits = len(launch.arguments) == len(params) and len(launch.template) <= len(template)
    kinds = zip(template, launch.template, strict=False)
    return (
        fits
        and all((parameter.kind in TYPE_KINDS) != _is_number(given) for parameter, given in kinds)
        and all(_accepts(context, param, value) for param, value in zip(params, launch.arguments, strict=True))
    )


def _is_number(template_argument: str) -> bool:
    return template_argument.lstrip("-").isdigit() or template_argument in _TRUTH


def _accepts(context: KernelContext, param: Param, value: Value) -> bool:
    """Return whether a parameter may take a value: addresses and numbers differ, and so do types of elements."""
    if isinstance(value, Pointer):
        passed, known = element_type(value.type), element_type(param.type, context.type_aliases)
        return param.pointer and (passed is None or known is None or passed == known)
    is_null = isinstance(value, Size) and value.constant == 0
    return not param.pointer or is_null or not isinstance(value, (Size, FloatValue))


def is_instance(context: KernelContext, template: tuple[str, ...]) -> bool:
    """Return whether a launch is one of this instance of the template."""
    if any(parameter.default is None for parameter in context.declaration.template[len(template) :]):
        return False
    wanted = [context.bindings.get(param.name, "") for param in context.declaration.template]
    return all(
        _TRUTH.get(given, given) == _TRUTH.get(known, known)
        or (element_type(given) is not None and element_type(given) == element_type(known))
        for given, known in zip(template, wanted, strict=False)
    )


def preference(one: ReadHostLaunch) -> tuple[bool, bool, int, int]:
    """Return a key by which the best launch is the first; of a recursive function, that of its first activation."""
    return is_refuted(one), one.launch.recursive, _open_symbols(one), _slack(one)


def _open_symbols(one: ReadHostLaunch) -> int:
    names = {name for extent in (*one.launch.grid, *one.launch.block) if extent is not None for name in symbols(extent)}
    return sum(one.run.symbols[name].origin == "computed" for name in names)


def _slack(one: ReadHostLaunch) -> int:
    """Return how much larger the buffers of a launch are than its grid, as a power of two.

    A program that uses the same buffers for several sizes fills them at the largest one only.
    """
    launch = one.launch
    values = {name: number(max(known.values, default=_USUAL)) for name, known in one.run.symbols.items()}
    used = {value.allocation for value in launch.arguments if isinstance(value, Pointer)}
    sizes = [launch.memory[key].size for key in used if key is not None and key in launch.memory]
    bytes_ = sum(_evaluated(size, values) or 0 for size in sizes if size is not None)
    extents = [_evaluated(one, values) or 1 for one in (*launch.grid, *launch.block) if one is not None]
    return (bytes_ // max(math.prod(extents), 1)).bit_length()


def is_refuted(one: ReadHostLaunch) -> bool:
    """Return whether a condition on the path to a launch is false, for the sizes that the program has."""
    values = {
        name: number(next(iter(known.values)))
        for name, known in one.run.symbols.items()
        if known.origin == "constant" and len(known.values) == 1
    }
    return any(_holds(condition, values) is False for condition in one.launch.conditions)


def _holds(condition: Condition, values: Mapping[str, Size]) -> bool | None:
    """Return the truth of a condition for some sizes; None if others decide it."""
    if condition.value is not None:
        return condition.value
    if condition.operator in ("&&", "||"):
        parts = [_holds(part, values) for part in condition.parts]
        decided = condition.operator == "||"
        return decided if decided in parts else None if None in parts else not decided
    if condition.left is None or condition.right is None or condition.operator not in _COMPARISONS:
        return None
    left, right = _evaluated(condition.left, values), _evaluated(condition.right, values)
    return None if left is None or right is None else _COMPARISONS[condition.operator](left, right)


def _evaluated(value: Size, values: Mapping[str, Size]) -> int | None:
    """Return the value for some sizes; None if others decide it, or if it divides by zero for these."""
    try:
        return substitute(value, values).constant
    except TooComplexError:
        return None
