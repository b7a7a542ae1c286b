"""Generated registration of a Triton kernel from a launch in its file. Nothing is imported or run."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.plan.triton import Tuning, choose_triton_kernel, resolve_triton
from gpuemu_lsp.engine.plan.wrappers.inference import inferred_kernel
from gpuemu_lsp.engine.plan.wrappers.inferred_kernel import InferredKernel, MissingLaunch
from gpuemu_lsp.engine.project.expressions import Expression
from gpuemu_lsp.engine.project.message_text import toml
from gpuemu_lsp.engine.project.model import ConstexprValue, DimSpec, KernelSpec, PointerSpec, PythonValue, ScalarSpec
from gpuemu_lsp.engine.source.python import read_python


def triton_registration(
    spec: KernelSpec, text: str, source: str, reference: str, skeleton: Callable[[Plan], str]
) -> dict[str, str]:
    """Return ``{entry, reference}``, TOML to append and a Python source; or ``{trouble}`` with the reason.

    ``source`` and ``reference`` are the paths for the entry; ``skeleton`` writes the reference of a plan.
    """
    module = read_python(spec.source, text)
    inferred = inferred_kernel(spec, text, [one.name for one in module.triton])
    if isinstance(inferred, MissingLaunch):
        return {"trouble": f"the program does not determine {inferred.reason}"}
    kernel, _ = choose_triton_kernel(spec, module)
    plans = resolve_triton(inferred.spec, module, kernel, Tuning()).plans if kernel is not None else ()
    if not plans:
        return {"trouble": "the launch does not give every parameter a value"}
    return {"entry": triton_entry(inferred, source, reference), "reference": skeleton(plans[0])}


def triton_entry(kernel: InferredKernel, source: str, reference: str) -> str:
    """Return the ``[[kernels]]`` block of a launch, for the author to correct."""
    spec = kernel.spec
    lines = ["[[kernels]]", f"name = {toml(spec.name)}", f"source = {toml(source)}"]
    lines += [f"reference = {toml(reference)}", f"entry = {toml(spec.entry or spec.name)}", 'language = "triton"']
    if spec.dims:
        lines += ["", "[kernels.dims]", *map(_dim, spec.dims.values())]
    lines += ["", "[kernels.args]", *_arguments(kernel)]
    if spec.constexprs:
        lines += ["", "[kernels.constexprs]"]
        lines += [f"{name} = {_values(values)}" for name, values in spec.constexprs.items()]
    launch = spec.launch
    assert launch is not None
    lines += ["", "[kernels.launch]", f"grid = [{', '.join(map(_formula, launch.grid or ()))}]"]
    for name, options in (("num_warps", launch.num_warps), ("num_stages", launch.num_stages)):
        lines += [f"{name} = {list(options)}"] if options else []
    return "\n".join(lines) + "\n"


def _dim(dim: DimSpec) -> str:
    if dim.minimum == dim.maximum:
        return f"{dim.name} = {dim.minimum}"
    if dim.choices:
        return f"{dim.name} = {list(dim.choices)}"
    more = f", multiple_of = {dim.multiple_of}" if dim.multiple_of > 1 else ""
    return f"{dim.name} = {{ min = {dim.minimum}, max = {dim.maximum}{more} }}"


def _arguments(kernel: InferredKernel) -> Iterator[str]:
    for name, arg in (kernel.spec.args or {}).items():
        if isinstance(arg, ScalarSpec):
            yield f"{name} = {_value(arg.value)}"
            continue
        yield f"{name} = {_tensor(arg)}" + ("  # the shape is assumed" if name in kernel.uncertain else "")


def _tensor(arg: PointerSpec) -> str:
    text = f"{arg.direction} = [{', '.join(map(_formula, arg.shape))}]"
    if arg.dtype is not None:
        text += f", dtype = {toml(arg.dtype)}"
    if arg.range is not None:
        text += f", range = [{', '.join(map(_value, arg.range))}]"
    return f"{{ {text} }}"


def _values(values: tuple[ConstexprValue, ...]) -> str:
    texts = [_value(one) for one in values]
    return texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"


def _value(value: ConstexprValue) -> str:
    if isinstance(value, Expression):
        return _formula(value)
    return toml(value.text if isinstance(value, PythonValue) else value)


def _formula(expression: Expression) -> str:
    text = str(expression)
    return text if text.isdecimal() else toml(text)
