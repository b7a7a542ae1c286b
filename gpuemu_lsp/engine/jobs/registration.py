"""Generated registration of a kernel: its ``[[kernels]]`` entry and the skeleton of a reference. Runs in a worker."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from gpuemu_lsp.engine.check.case_runner import choose_executor
from gpuemu_lsp.engine.check.fitted_extents import settle_shapes
from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.model_reference import model_plan, script
from gpuemu_lsp.engine.jobs.pyptx_registration import pyptx_registration
from gpuemu_lsp.engine.jobs.requests.cuda_strings import compiled_request, variable_of
from gpuemu_lsp.engine.jobs.triton_registration import triton_registration
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.entry import choose_kernel, instances
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg
from gpuemu_lsp.engine.plan.skeleton import argument_key, guessed_plan
from gpuemu_lsp.engine.project.expressions import names
from gpuemu_lsp.engine.project.expressions import parse as parse_expression
from gpuemu_lsp.engine.project.message_text import toml
from gpuemu_lsp.engine.regular_file import file_text
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.python import read_model_pair, read_python
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.workers.wire import from_json


def registration(payload: Json) -> Iterator[Json]:
    """Yield ``{entry, reference, questions}``, or ``{trouble}`` with the reason.

    They are TOML to append, a Python source, and a question for each extent that was not found and is assumed.

    ``payload`` has the ``request`` of an unregistered kernel, and the ``source`` and ``reference`` paths for the entry.
    With ``recorded`` only launches that a run has recorded count, not those in the file. ``multiples`` has numbers of
    which sizes are multiples.
    In a trusted workspace the kernel is probed in the emulator to infer shapes; nothing else is executed.
    """
    assert isinstance(payload, dict)
    original = from_json(CheckRequest, payload["request"])
    source, reference = payload["source"], payload["reference"]
    assert isinstance(source, str) and isinstance(reference, str)
    if original.spec.language == "triton":
        yield dict(triton_registration(original.spec, _text(original), source, reference, skeleton))
        return
    if original.spec.language == "pyptx":
        yield dict(pyptx_registration(original, source, reference, skeleton))
        return
    request, _ = compiled_request(original)
    plan, why = _plan(request, recorded=payload.get("recorded") is True)
    if plan is None:
        yield {"trouble": why}
        return
    multiples = payload.get("multiples")
    unknown = _open(plan)
    plan = _multiples(_assumed(plan, unknown), multiples if isinstance(multiples, dict) else {})
    text = skeleton(plan)
    if original.spec.source.endswith(".py"):
        plan, text = _with_model(original, request, plan, source, reference)
        source += _name(original)
    questions: list[Json] = [_question(arg) for arg in plan.args if arg.param in unknown]
    yield {"entry": entry(request, plan, source, reference, unknown), "reference": text, "questions": questions}


def _with_model(
    original: CheckRequest, request: CheckRequest, plan: Plan, source: str, reference: str
) -> tuple[Plan, str]:
    """Return plan and reference of a kernel that computes the ``Model.forward`` of its file, else as they are."""
    pair = read_model_pair(original.spec.source, _text(original))
    if pair is not None and request.text is not None:
        include_dirs = request.spec.include_dirs
        modelled = model_plan(plan, pair, read(request.spec.source, request.text, include_dirs), include_dirs)
        if modelled is not None:
            return modelled[0], script(source, reference, modelled[1])
    return plan, skeleton(plan)


def _multiples(plan: Plan, multiples: Mapping[str, Json]) -> Plan:
    """Return a plan with sizes that are multiples of the numbers of their names."""
    steps = {name: step for name, step in multiples.items() if isinstance(step, int)}
    dims = [replace(dim, multiple_of=math.lcm(max(dim.multiple_of, 1), steps.get(dim.name, 1))) for dim in plan.dims]
    return replace(plan, dims=tuple(dims))


def _name(request: CheckRequest) -> str:
    """Return ``:NAME`` for a kernel in a ``.py`` with several strings, empty where none is needed or there is none."""
    source = read_python(request.spec.source, _text(request))
    if request.spec.string is None or len(source.cuda) == 1:
        return ""
    variable = variable_of(source, request.spec.string)
    return f":{variable}" if variable is not None else ""


def _text(request: CheckRequest) -> str:
    return file_text(request.spec.source) if request.text is None else request.text


def entry(
    request: CheckRequest, plan: Plan, source: str, reference: str, unknown: Collection[str] = frozenset()
) -> str:
    """Return a ``[[kernels]]`` block with everything that was inferred, for the author to correct.

    ``unknown`` are the parameters whose extents are assumed: each has a question in a comment.
    """
    lines = ["[[kernels]]", f"name = {toml(request.spec.name)}"]
    lines += [f"source = {toml(source)}", f"reference = {toml(reference)}", f"entry = {toml(plan.entry)}"]
    lines += ["", "[kernels.dims]"]
    for dim in plan.dims:
        if dim.minimum is not None and dim.minimum == dim.maximum:
            lines.append(f"{dim.name} = {dim.minimum}")
            continue
        parts = [f"min = {dim.minimum if dim.minimum is not None else 1}"]
        parts.append(f"max = {dim.maximum if dim.maximum is not None else 1024}")
        if dim.multiple_of > 1:
            parts.append(f"multiple_of = {dim.multiple_of}")
        lines.append(f"{dim.name} = {{ {', '.join(parts)} }}")
    if not plan.dims:
        del lines[-2:]
    lines += ["", "[kernels.args]"]
    for arg in plan.args:
        lines += [f"# {_question(arg)}", _argument(arg)] if arg.param in unknown else [_argument(arg)]
    lines += ["", "[kernels.launch]", f"grid = {_expressions(plan.grid)}", f"block = {_expressions(plan.block)}"]
    if str(plan.shared) != "0":
        lines.append(f"shared = {_formula(plan.shared)}")
    return "\n".join(lines) + "\n"


def skeleton(plan: Plan) -> str:
    """Return a runnable reference whose outputs have the right shape and are zero, for the author to complete."""
    outputs = [arg for arg in plan.args if isinstance(arg, TensorArg) and arg.direction != "in"]
    dims = [dim.name for dim in plan.dims]
    shapes = {arg.key: ", ".join(map(str, arg.shape)) for arg in outputs}
    used = [name for name in dims if any(name in names(size) for arg in outputs for size in arg.shape)]
    keys = ", ".join(arg.key for arg in plan.args if isinstance(arg, ScalarArg) or arg.direction != "out")
    lines = ["import numpy as np", "", ""]
    if any("ceil_div" in shape for shape in shapes.values()):
        lines += ["def ceil_div(a, b):", "    return -(-a // b)", "", ""]
    lines.append(f"def reference({', '.join(['inputs', *used])}, **kwargs):")
    lines.append(f'    """Return what {plan.kernel} should compute. inputs are fp64: {keys or "none"}."""')
    lines.append("    # Put the formula in place of the zeros; until then the kernel's numbers are reported as wrong.")
    results = {key: f"np.zeros(({shape},))" for key, shape in shapes.items()}
    if len(results) == 1:
        lines.append(f"    return {next(iter(results.values()))}")
    else:
        inner = ", ".join(f'"{key}": {value}' for key, value in results.items())
        lines.append(f"    return {{{inner}}}")
    return "\n".join(lines) + "\n"


def _plan(request: CheckRequest, *, recorded: bool) -> tuple[Plan | None, str]:
    prepared = prepare(request)
    if recorded:
        return _recorded_plan(prepared)
    if not prepared.plans and (guessed := _guessed(request, prepared)) is not None:
        return guessed, ""
    if not prepared.plans or prepared.artifact is None:
        return None, f"'{request.spec.name}' does not compile, or its arguments cannot be inferred from its signature"
    plan = prepared.plans[0]
    if not plan.inferred:
        return plan, ""
    executor, _ = choose_executor(request, prepared) if request.options.execute else (None, None)
    if executor is None:
        return None, "its shapes can only be inferred by running it, and execution is disabled in this workspace"
    settled = settle_shapes(request, prepared, plan, executor)
    if settled.plan is None:
        return plan, ""
    return settled.plan, settled.findings[0].message if settled.findings else ""


def _recorded_plan(prepared: PreparedKernel) -> tuple[Plan | None, str]:
    """Return the plan of the recorded launches, or the reason for which no entry can say what they are."""
    plan = next((one for one in prepared.plans if one.recorded is not None), None)
    if plan is None or plan.recorded is None:
        reasons = [one.message for one in prepared.findings if one.rule == "config/recording-unused"]
        return None, (reasons[0] if reasons else "it has no recorded launches, or does not compile").rstrip(".")
    tables = [name for case in plan.recorded.cases for name, memory in case.tensors.items() if memory.addresses]
    if tables:
        return (
            None,
            f"`{tables[0]}` has addresses, which an entry cannot. Its recorded launches are checked without one",
        )
    if plan.recorded.sizes:
        return plan, ""
    # One launch does not show how other extents grow with a size: a smaller one fits them.
    most = {dim.name: max(case.dims[dim.name] for case in plan.recorded.cases) for dim in plan.dims}
    return replace(plan, dims=tuple(replace(dim, maximum=most[dim.name]) for dim in plan.dims)), ""


def _guessed(request: CheckRequest, prepared: PreparedKernel) -> Plan | None:
    """Return a plan to correct for a kernel that compiles, and whose arguments cannot be inferred."""
    if prepared.artifact is None or prepared.source is None:
        return None
    declaration, _ = choose_kernel(request.spec, prepared.source)
    if declaration is None:
        return None
    context = KernelContext(request.spec, declaration, prepared.source)
    chosen, _ = instances(context)
    for instance in chosen:
        if instance.expression in prepared.artifact.entries:
            return guessed_plan(replace(context, bindings=instance.bindings), instance.expression, prepared.place)
    return None


def _open(plan: Plan) -> frozenset[str]:
    """Return the buffers whose extents neither the program nor a probing launch shows."""
    tensors = [arg for arg in plan.args if isinstance(arg, TensorArg)]
    fixed = [arg.param for arg in tensors if plan.recorded is not None and not any(map(names, arg.shape))]
    return frozenset(
        arg.param for arg in tensors if not arg.shape or arg.param in plan.facts.assumed_extents | {*fixed}
    )


def _assumed(plan: Plan, unknown: Collection[str]) -> Plan:
    """Return a plan in which buffers of unknown extent have that of the first size, which is the likeliest one.

    Recorded ones keep theirs.
    """
    if not plan.dims or plan.recorded is not None:
        return plan
    shape = (parse_expression(plan.dims[0].name),)
    args = (
        replace(arg, shape=shape) if isinstance(arg, TensorArg) and arg.param in unknown else arg for arg in plan.args
    )
    return replace(plan, args=tuple(args))


def _question(arg: TensorArg | ScalarArg) -> str:
    assumed = ", ".join(map(str, arg.shape)) if isinstance(arg, TensorArg) else ""
    return f"How large is `{arg.param}`? " + (f"Assumed: {assumed}." if assumed else "It was not found.")


def _argument(arg: TensorArg | ScalarArg) -> str:
    key = argument_key(arg.param)
    if isinstance(arg, ScalarArg):
        value = arg.value
        return f"{key} = {toml(value) if isinstance(value, bool | int | float) else _formula(value)}"
    shape = ", ".join(_formula(size) for size in arg.shape)
    # The reference gets a field of a structure by the field's name.
    default = arg.param, arg.param.rsplit(".", 1)[-1]
    more = f", as = {toml(arg.key)}" if arg.key not in default else ""
    if arg.range is not None:
        low, high = (toml(bound) if isinstance(bound, int | float) else _formula(bound) for bound in arg.range)
        more += f", range = [{low}, {high}]"
    return f"{key} = {{ {arg.direction} = [{shape}]{more} }}"


def _expressions(expressions: Sequence[object]) -> str:
    return f"[{', '.join(map(_formula, expressions))}]"


def _formula(expression: object) -> str:
    text = str(expression)
    return text if text.isdecimal() else toml(text)
