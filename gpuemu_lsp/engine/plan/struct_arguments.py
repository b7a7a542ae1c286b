"""Configured arguments of a struct that a kernel takes by value: one for each field, ``p.x``."""

from __future__ import annotations

import difflib
import re
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.element_types import INTEGERS, element_type
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.plan.configured import configured_argument
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.model import PlanArg, ScalarArg, StructMember
from gpuemu_lsp.engine.plan.struct_layout import LayoutError, Leaf, StructLayout, struct_layout
from gpuemu_lsp.engine.project.expressions import Expression, constant, parse
from gpuemu_lsp.engine.project.model import PointerSpec, ScalarSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import Param

_LISTED = 6
_LAST_INDEX = re.compile(r"\[\d+\]$")


@dataclass(frozen=True, slots=True)
class StructParam:
    """A parameter that is a struct: its layout, or the reason why that cannot be computed."""

    param: Param
    layout: StructLayout | None
    problem: str | None = None

    @staticmethod
    def of(context: KernelContext, param: Param) -> StructParam | None:
        """Return the struct or vector of a parameter; None if its type is neither, nor one that the file defines."""
        known = element_type(param.type, context.type_aliases)
        if param.pointer or not param.name or (known is not None and known.lanes == 1):
            return None
        try:
            layout = struct_layout(param.type, context.source, context.type_aliases)
        except LayoutError as error:
            return StructParam(param, None, f"'{param.name}' is a {param.type} passed by value, and {error}.")
        return None if layout is None else StructParam(param, layout)

    def unknown(self, context: KernelContext, name: str) -> list[Finding]:
        """Return the finding of a key of `[kernels.args]` that names this struct and none of its fields."""
        if self.layout is None:
            message = f"{self.problem} Its fields cannot be set."
            return [make("config/bad-value", message, context.config_place(f"args.{name}"), kernel=context.spec.name)]
        known = [key for leaf in self.layout.leaves for key in _keys(self.param.name, leaf)]
        if name in known:
            return []
        place = context.config_place(f"args.{name}")
        if name == self.param.name:
            example = f'"{known[0]}" = ...' if known else "no fields"
            message = f"'{name}' is a {self.layout.name} passed by value; set its fields, such as {example}"
            return [make("config/bad-value", message, place, kernel=context.spec.name)]
        close = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean '{close[0]}'?" if close else f"It has: {listed(known)}."
        message = f"'{self.layout.name}' has no field '{name.partition('.')[2] or name}'. {hint}"
        return [make("config/unknown-key", message, place, kernel=context.spec.name)]


def struct_arguments(context: KernelContext, struct: StructParam) -> tuple[list[PlanArg], list[str], list[Finding]]:
    """Return the arguments of a struct in memory order, the fields that gpuemu.toml lacks, and what is wrong."""
    args: list[PlanArg] = []
    missing: list[str] = []
    findings: list[Finding] = []
    if struct.layout is None:
        message = struct.problem or ""
        if not any(name.startswith(f"{struct.param.name}.") for name in context.spec.args or {}):
            findings.append(make("config/bad-value", message, context.config_place("args"), kernel=context.spec.name))
        return args, missing, findings
    for leaf in struct.layout.leaves:
        found = _member(context, struct.param, leaf)
        if found is None:
            missing.append(_keys(struct.param.name, leaf)[-1])
        elif isinstance(found, Finding):
            findings.append(found)
        else:
            args.append(replace(found, member=StructMember(struct.param.name, leaf.offset, struct.layout.size)))
    return args, list(dict.fromkeys(missing)), findings


def listed(names: list[str]) -> str:
    """Return the first few of many names."""
    return ", ".join(names[:_LISTED]) + (f", ... ({len(names)} in all)" if len(names) > _LISTED else "")


def _keys(param: str, leaf: Leaf) -> list[str]:
    """Return the keys that may give a leaf: its own, and those of the arrays it is an element of."""
    keys = [f"{param}.{leaf.path}"]
    while _LAST_INDEX.search(keys[-1]):
        keys.append(_LAST_INDEX.sub("", keys[-1]))
    return keys


def _member(context: KernelContext, struct: Param, leaf: Leaf) -> PlanArg | Finding | None:
    """Return the argument of one leaf, what is wrong with it, or None where gpuemu.toml lacks it."""
    spec = context.spec
    assert spec.args is not None
    keys = _keys(struct.name, leaf)
    key = next((key for key in keys if key in spec.args), None)
    param = Param(
        keys[0], leaf.type, leaf.pointer_depth > 0, leaf.const, struct.range, pointer_depth=leaf.pointer_depth
    )
    if key is None:
        last = leaf.path.rpartition(".")[2]
        is_size = not param.pointer and leaf.element is not None and leaf.element.dtype in INTEGERS
        if is_size and last in (spec.dims or {}):
            return ScalarArg(param.name, param.name, leaf.element.dtype, parse(last))  # type: ignore[union-attr]
        return None
    given = spec.args[key]
    if param.pointer and isinstance(given, ScalarSpec) and _is_null(given):
        return ScalarArg(param.name, given.key or param.name, "uint64", 0)
    if len(keys) > 1 and given.key is not None:
        given = replace(given, key=None)
    if isinstance(given, PointerSpec) and key != keys[0]:
        message = f"'{key}' is an array of pointers; give each its buffer: '{keys[0]}'."
        return make("config/bad-value", message, context.config_place(f"args.{key}"), kernel=spec.name)
    return configured_argument(context, param, given, key, leaf.element)


def _is_null(given: ScalarSpec) -> bool:
    number = constant(given.value) if isinstance(given.value, Expression) else given.value
    return number == 0 and not isinstance(number, bool)
