"""Configuration to start from for a kernel whose arguments cannot be inferred: every parameter with a guessed value."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuemu_lsp.engine.element_types import FLOATS, INTEGERS, ElementType, element_type
from gpuemu_lsp.engine.findings import Place
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, ScalarArg, TensorArg
from gpuemu_lsp.engine.plan.struct_arguments import StructParam
from gpuemu_lsp.engine.plan.struct_layout import Leaf
from gpuemu_lsp.engine.project.expressions import parse
from gpuemu_lsp.engine.project.keys import ARGUMENT
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.source.model import Param

_INDEX = re.compile(r"(?:\[\d+\])+$")
_BLOCK = 256


def template(context: KernelContext) -> str:
    """Return the TOML to add for a kernel. The shapes are a guess from the signature, for the user to correct."""
    guesses = list(_guesses(context))
    sizes = _sizes(guesses)
    lines = ["Add to gpuemu.toml:", "[kernels.dims]"]
    lines += [f"{name} = {{ min = 1, max = 1024 }}" for name in sizes]
    lines.append("[kernels.args]")
    shape = ", ".join(f'"{name}"' for name in sizes)
    for name, param, element in guesses:
        if param.pointer_depth > 1:
            value = "0"
        elif param.pointer:
            value = f"{{ {'in' if param.const else 'out'} = [{shape}] }}"
        elif element is not None and element.dtype in INTEGERS:
            value = f'"{_last(name)}"'
        else:
            value = "true" if element is not None and element.dtype == "bool" else "1.0"
        lines.append(f"{argument_key(name)} = {value}")
    lines += ["[kernels.launch]", f'grid = "ceil_div({sizes[0]}, {_BLOCK})"', f"block = {_BLOCK}"]
    return "\n".join(lines)


def guessed_plan(context: KernelContext, entry: str, place: Place) -> Plan | None:
    """Return the plan that the template configures, to be written to gpuemu.toml; None if a type is not known.

    It is not for launching: an array in a struct has one argument.
    """
    guesses = list(_guesses(context))
    sizes = _sizes(guesses)
    args: list[PlanArg] = []
    for name, param, element in guesses:
        if param.pointer_depth > 1 and "." in name:
            args.append(ScalarArg(name, name, "uint64", 0))
        elif element is None or param.pointer_depth > 1 or (element.lanes > 1 and not param.pointer):
            return None
        elif param.pointer:
            shape = tuple(parse(size) for size in sizes)
            args.append(TensorArg(name, name, "in" if param.const else "out", element.dtype, shape))
        elif element.dtype in INTEGERS:
            args.append(ScalarArg(name, name, element.dtype, parse(_last(name))))
        else:
            args.append(ScalarArg(name, name, element.dtype, True if element.dtype == "bool" else 1.0))
    floats = [arg.dtype for arg in args if isinstance(arg, TensorArg) and arg.dtype in FLOATS]
    dims = tuple(DimSpec(name) for name in sizes)
    launch = (parse(f"ceil_div({sizes[0]}, {_BLOCK})"),), (parse(_BLOCK),), parse(0)
    return Plan(context.spec.name, entry, (floats or ["float32"])[0], tuple(args), dims, *launch, place)


def argument_types(context: KernelContext) -> list[tuple[str, str]]:
    """Return the TOML key and the C type of every argument to give, the fields of structs included."""
    return [
        (argument_key(name), f"{'const ' if param.const else ''}{param.type}{'*' * param.pointer_depth}")
        for name, param, _ in _guesses(context)
    ]


def argument_key(name: str) -> str:
    """Return the TOML key of an argument: quoted where a dotted key would be another one."""
    plain = all(part.isidentifier() and ARGUMENT.key(part) is None for part in name.split("."))
    return name if plain or "." not in name else f'"{name}"'


def _guesses(context: KernelContext) -> Iterator[tuple[str, Param, ElementType | None]]:
    """Yield the name, the parameter and the element type of every value to give; an array in a struct is one."""
    for param in context.declaration.params:
        struct = StructParam.of(context, param)
        if struct is None:
            yield param.name, param, element_type(param.type, context.type_aliases)
            continue
        seen: dict[str, Leaf] = {}
        for leaf in struct.layout.leaves if struct.layout is not None else ():
            key = leaf.path if leaf.pointer_depth else _INDEX.sub("", leaf.path)
            seen.setdefault(f"{param.name}.{key}", leaf)
        for name, leaf in seen.items():
            pointer = leaf.pointer_depth > 0
            yield name, Param(name, leaf.type, pointer, leaf.const, param.range, leaf.pointer_depth), leaf.element


def _sizes(guesses: list[tuple[str, Param, ElementType | None]]) -> list[str]:
    """Return the integers that are passed by value, as dims; ``n`` if there is none."""
    found = [
        _last(name)
        for name, param, element in guesses
        if not param.pointer and element is not None and element.dtype in INTEGERS
    ]
    return list(dict.fromkeys(found)) or ["n"]


def _last(name: str) -> str:
    return name.rpartition(".")[2]
