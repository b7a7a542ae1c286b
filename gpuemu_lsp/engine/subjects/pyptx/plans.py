"""Plans of a pyptx kernel: its sizes and values from gpuemu.toml, its tensors and grid from the kernel itself.

A kernel, or the function that builds it, has parameters whose values are integers or options: the dims of gpuemu.toml
of the same names, or values of ``[kernels.constexprs]``. What it declares for them, the shapes of its tensors among
others, is known only when it is imported (:class:`PyptxInterface`).
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, PythonChoice, ScalarArg, TensorArg, TritonOptions
from gpuemu_lsp.engine.plan.triton import choice_dim, selection, start_of
from gpuemu_lsp.engine.project.expressions import Expression, constant, parse
from gpuemu_lsp.engine.project.model import ConstexprValue, DimSpec, KernelSpec, PointerSpec, ScalarSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.python.model import PyptxCall, PyptxKernel, PythonSource

DTYPES: Mapping[str, str] = {
    "bf16": "bfloat16",
    "f16": "float16",
    "f32": "float32",
    "tf32": "float32",
    "f64": "float64",
    "e4m3": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    **{f"s{bits}": f"int{bits}" for bits in (8, 16, 32, 64)},
    **{f"{kind}{bits}": f"uint{bits}" for bits in (8, 16, 32, 64) for kind in "ub"},
}
"""NumPy dtypes by pyptx's types."""


@dataclass(frozen=True, slots=True)
class PyptxTensor:
    """A tensor that a kernel declares. ``type`` is pyptx's, the shape is one of expressions over the dims."""

    name: str
    direction: str
    type: str
    shape: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class PyptxInterface:
    """What a kernel declares: its tensors in order, and its launch. ``raw`` are scalar parameters, PTX type by name."""

    tensors: tuple[PyptxTensor, ...]
    grid: tuple[Expression, ...]
    block: tuple[int, ...]
    raw: Mapping[str, str] = field(default_factory=dict)


def choose_pyptx_kernel(spec: KernelSpec, source: PythonSource) -> tuple[PyptxKernel | None, tuple[Finding, ...]]:
    """Return the kernel of an entry: the one whose name or builder is ``entry`` or ``name``, else the only one."""
    place = spec.places.get("entry") or spec.places.get("name") or start_of(source.path)
    wanted = spec.entry or spec.name
    for candidates in (
        [one for one in source.pyptx if one.entry == wanted],
        [one for one in source.pyptx if one.name == wanted],
        list(source.pyptx) if spec.entry is None else [],
    ):
        if len(candidates) == 1:
            return candidates[0], ()
        if candidates:
            known = ", ".join(one.entry for one in candidates)
            message = (
                f"{_short(source.path)} has several kernels ({known}) for '{spec.name}'. "
                f'Select one: entry = "{candidates[0].entry}"'
            )
            return None, (make("config/ambiguous-signature", message, place, kernel=spec.name),)
    there = [one.entry for one in source.pyptx]
    close = difflib.get_close_matches(wanted, there, n=1)
    listed = f"There are: {', '.join(there)}." if there else "It has no function with @pyptx.kernel."
    message = f"There is no pyptx kernel '{wanted}' in {_short(source.path)}. "
    message += f"Did you mean '{close[0]}'?" if close else listed
    return None, (make("compile/missing-entry", message, place, kernel=spec.name),)


def unregistered_pyptx(source: PythonSource, registered: Container[str]) -> list[KernelSpec]:
    """Return the specs of the kernels of a file that gpuemu.toml does not have, with the sizes of a call of each."""
    names = [one.name for one in source.pyptx]
    return [
        KernelSpec(
            kernel.name if names.count(kernel.name) == 1 else kernel.entry,
            source.path,
            None,
            entry=kernel.entry,
            language="pyptx",
            dims=_sizes_of_call(kernel),
            places={"": Place(source.path, kernel.name_range)},
        )
        for kernel in source.pyptx
        if kernel.entry not in registered and kernel.name not in registered
    ]


def smallest_call(kernel: PyptxKernel) -> PyptxCall | None:
    """Return the call of a kernel's file with the smallest sizes, None if none shows all of them."""
    return min(kernel.calls, key=lambda call: (math.prod(call.values.values()), call.range.start), default=None)


def entry_template(kernel: PyptxKernel, source: PythonSource, names: Sequence[str]) -> str:
    """Return the TOML that registers a kernel with sizes of these names, to be completed."""
    lines = ["[[kernels]]", f'name = "{kernel.name}"', f'source = "{_short(source.path)}"', 'language = "pyptx"']
    if kernel.builder is not None:
        lines.append(f'entry = "{kernel.builder}"')
    return "\n".join([*lines, "[kernels.dims]", *(f"{name} = [64, 128]" for name in names)])


@dataclass(frozen=True, slots=True)
class PyptxValues:
    """The values that a kernel's parameters get: dims, and arguments for numbers; ``choices`` for anything else.

    ``missing`` are parameters without a value.
    """

    dims: tuple[DimSpec, ...]
    args: tuple[ScalarArg, ...]
    choices: tuple[PythonChoice, ...]
    missing: tuple[str, ...] = ()
    findings: tuple[Finding, ...] = ()


def pyptx_values(spec: KernelSpec, params: Mapping[str, bool], place: Place) -> PyptxValues:
    """Return the values of parameters, each of which has a default or not."""
    dims, args, choices = list[DimSpec](), list[ScalarArg](), list[PythonChoice]()
    known = spec.dims or {}
    missing = []
    for name, optional in params.items():
        given = spec.constexprs.get(name)
        if given is None and name in known:
            args.append(ScalarArg(name, name, "int64", parse(name), constexpr=True))
        elif given is None and not optional:
            missing.append(name)
        elif given is not None:
            _constexpr(name, given, dims, args, choices)
    findings = []
    for name in spec.constexprs.keys() - params.keys():
        message = f"'{spec.name}' has no parameter '{name}'. It has: {', '.join(params) or 'none'}."
        where = spec.places.get(f"constexprs.{name}", place)
        findings.append(make("config/bad-value", message, where, kernel=spec.name))
    return PyptxValues((*dims, *known.values()), tuple(args), tuple(choices), tuple(missing), tuple(findings))


def _constexpr(
    name: str,
    given: tuple[ConstexprValue, ...],
    dims: list[DimSpec],
    args: list[ScalarArg],
    choices: list[PythonChoice],
) -> None:
    """Add the values of one parameter of ``[kernels.constexprs]``."""
    if len(given) == 1 and isinstance(given[0], float) and not isinstance(given[0], bool):
        args.append(ScalarArg(name, name, "float64", given[0], constexpr=True))
        return
    if any(not isinstance(value, Expression | bool) for value in given):
        if len(given) > 1:
            dims.append(choice_dim(name, tuple(range(1, len(given) + 1))))
        choices.append(PythonChoice(name, given, name if len(given) > 1 else None))
        return
    whole = [parse(int(value)) if isinstance(value, bool) else value for value in given]
    expressions = [value for value in whole if isinstance(value, Expression)]
    kind = "bool" if all(isinstance(value, bool) for value in given) else "int64"
    numbers = [constant(value) for value in expressions]
    if len(given) == 1:
        args.append(ScalarArg(name, name, kind, expressions[0], constexpr=True))
    elif kind == "int64" and all(number is not None and number > 0 for number in numbers):
        dims.append(choice_dim(name, tuple(number for number in numbers if number is not None)))
        args.append(ScalarArg(name, name, kind, parse(name), constexpr=True))
    else:
        dims.append(choice_dim(name, tuple(range(1, len(given) + 1))))
        args.append(ScalarArg(name, name, kind, selection(name, expressions), constexpr=True))


def sizes_plan(spec: KernelSpec, kernel: PyptxKernel, values: PyptxValues, place: Place) -> Plan:
    """Return a plan that has only sizes and values of parameters."""
    return Plan(
        kernel=spec.name,
        entry=kernel.name,
        dtype="float32",
        args=values.args,
        dims=values.dims,
        grid=(parse(1),),
        block=(parse(1),),
        shared=parse(0),
        place=place,
        triton=TritonOptions(choices=values.choices),
    )


def resolve_pyptx(spec: KernelSpec, sizes: Plan, interface: PyptxInterface) -> tuple[Plan | None, tuple[Finding, ...]]:
    """Return the plan of a kernel with its tensors, or findings that say what gpuemu.toml has to change."""
    findings = []
    declared = {one.name for one in interface.tensors}
    given = spec.args or {}
    for name in given.keys() - declared - interface.raw.keys():
        message = f"'{sizes.entry}' has no tensor '{name}'. It has: {', '.join(one.name for one in interface.tensors)}."
        findings.append(_error(spec, message, f"args.{name}", sizes.place))
    args: list[PlanArg] = []
    for tensor in interface.tensors:
        arg = given.get(tensor.name)
        if tensor.type not in DTYPES:
            message = f"'{spec.name}' was not run: its tensor '{tensor.name}' has elements of type {tensor.type}."
            findings.append(make("engine/not-executed", message, sizes.place, kernel=spec.name))
            continue
        dtype = DTYPES[tensor.type]
        plain = TensorArg(tensor.name, tensor.name, tensor.direction, dtype, tensor.shape)
        if isinstance(arg, ScalarSpec):
            findings.append(_error(spec, f"'{tensor.name}' is a tensor.", f"args.{tensor.name}", sizes.place))
        elif isinstance(arg, PointerSpec):
            if arg.dtype is not None and arg.dtype != dtype:
                message = f"'{tensor.name}' has elements of type {dtype}, as the kernel declares it."
                findings.append(_error(spec, message, f"args.{tensor.name}", sizes.place))
            direction = "inout" if "inout" in (arg.direction, tensor.direction) else tensor.direction
            args.append(
                replace(
                    plain,
                    key=arg.key or tensor.name,
                    direction=direction,
                    range=arg.range,
                    align=arg.align,
                    compare=arg.compare,
                )
            )
        else:
            args.append(plain)
    sized = {arg.param for arg in sizes.args}
    for name, kind in interface.raw.items():
        scalar = given.get(name)
        if isinstance(scalar, ScalarSpec) and name not in sized:  # else pyptx passes the value of the size
            dtype = "float32" if kind.startswith("f") else "int64"
            args.append(ScalarArg(name, scalar.key or name, dtype, scalar.value))
    if findings:
        return None, tuple(findings)
    tensors = [arg for arg in args if isinstance(arg, TensorArg)]
    plan = replace(
        sizes,
        args=(*args, *sizes.args),
        dtype=tensors[0].dtype if tensors else sizes.dtype,
        grid=interface.grid,
        block=tuple(parse(size) for size in interface.block),
    )
    return plan, ()


def _error(spec: KernelSpec, message: str, key: str, place: Place) -> Finding:
    return make("config/bad-value", message, spec.places.get(key, place), kernel=spec.name)


def _sizes_of_call(kernel: PyptxKernel) -> dict[str, DimSpec] | None:
    """Return the sizes of a call of the file as dims; None without a call that shows them."""
    call = smallest_call(kernel)
    return None if call is None else {name: DimSpec(name, value, value) for name, value in call.values.items()}


def _short(path: str) -> str:
    return path.rsplit("/", 1)[-1]
