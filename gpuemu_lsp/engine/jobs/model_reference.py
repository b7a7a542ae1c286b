"""Registration of a kernel against the PyTorch model in its file: ``Model.forward`` is its reference.

The host function of the extension says which tensor each argument of the kernel is, and what its sizes are;
``ModelNew.forward`` which input of the model that tensor is; ``get_inputs`` which sizes the inputs have.
"""

from __future__ import annotations

import math
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuemu_lsp.engine.plan.cexpr import Scope, translate
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, ScalarArg
from gpuemu_lsp.engine.project.expressions import Expression, parse
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.source.model import LaunchSite, SourceFile
from gpuemu_lsp.engine.source.python.model_pair import MODEL, ModelPair

_DATA = re.compile(r"(?:^|[\s(*&,])(\w+)\s*\.\s*(?:mutable_|const_)?data(?:_ptr)?\b")
_SIZE = re.compile(r"\b(\w+)\s*\.\s*(?:sizes\s*\(\s*\)\s*\[\s*(\d)\s*\]|size\s*\(\s*(\d)\s*\)|(numel)\s*\(\s*\))")
_SAME = re.compile(r"^(\w+)\s*(?:\.\s*(?:contiguous|clone|detach)\s*\(\s*\)\s*)*$")
_LIKE = re.compile(r"\b(?:empty|zeros|ones)_like\s*\(\s*(\w+)")
_NEW = re.compile(r"\b(?:new_)?(empty|zeros|ones|full)\s*\(\s*\{([^{}]*)\}")
_SIZES_OF = re.compile(r"\b(?:new_)?(?:empty|zeros|ones|full)\s*\(\s*(\w+)\s*\.\s*sizes\s*\(\s*\)")
_ZEROS = re.compile(r"\b(?:new_)?zeros(?:_like)?\s*\(")
_PARENTHESES = re.compile(r"\(([A-Za-z_]\w*|\d+)\)")
_MAX_DEPTH = 8
_LARGEST = {1: 4096, 2: 128, 3: 32}
"""Largest size of a dimension by the rank of the tensor; that of the model is usually too large to emulate."""
_LARGEST_OF_MANY = 12


@dataclass(frozen=True, slots=True)
class _Host:
    """A launch in the host function of an extension; ``shapes`` has the sizes of its tensors as expressions."""

    launch: LaunchSite
    shapes: dict[str, tuple[str, ...]] = field(default_factory=dict)

    def tensor(self, text: str) -> str | None:
        """Return the tensor whose elements an argument of the launch points to."""
        for _ in range(_MAX_DEPTH):
            if match := _DATA.search(text):
                return match[1]
            if text not in self.launch.locals:
                return None
            text = self.launch.locals[text]
        return None

    def parameter(self, tensor: str, parameters: tuple[str, ...]) -> str | None:
        """Return the parameter of the host function that has the elements of a tensor."""
        for _ in range(_MAX_DEPTH):
            if match := _SAME.match(self.launch.locals.get(tensor, "").strip()):
                tensor = match[1]
                continue
            break
        return tensor if tensor in parameters and tensor not in self.launch.locals else None

    def expression(self, text: str) -> Expression | None:
        """Translate a C expression over sizes of tensors to one over dims."""
        named: dict[str, str] = {}
        translated = translate(
            self._sizes(text, named),
            Scope(named, {name: self._sizes(value, named) for name, value in self.launch.locals.items()}),
        )
        if translated is None:
            return None
        return parse(_PARENTHESES.sub(r"\1", translated))

    def _sizes(self, text: str, named: dict[str, str]) -> str:
        """Replace the sizes of known tensors by names, which are added to ``named``."""

        def name(match: re.Match[str]) -> str:
            shape = self.shapes.get(self.origin(match[1]))
            axis = match[2] or match[3]
            if shape is None or (axis and int(axis) >= len(shape)):
                return match[0]
            key = f"_size_{match[1]}_{axis or 'all'}"
            named[key] = f"({shape[int(axis)]})" if axis else f"({' * '.join(shape)})"
            return key

        return _SIZE.sub(name, text)

    def origin(self, tensor: str) -> str:
        """Return the tensor that a copy has its elements from."""
        match = _SAME.match(self.launch.locals.get(tensor, "").strip())
        return match[1] if match else tensor


def model_plan(plan: Plan, pair: ModelPair, source: SourceFile) -> tuple[Plan, tuple[str, ...]] | None:
    """Return the plan of a kernel with the sizes of the model's inputs, and the inputs in the model's order.

    None if the launch does not determine what each argument is, or the kernel gets other tensors than the model.
    """
    name = plan.entry.split("<")[0].split("::")[-1].strip()
    parameters = _host_parameters(pair.function, source.text)
    for launch in source.launches:
        if launch.kernel == name and launch.host_function == pair.function and len(launch.arguments) == len(plan.args):
            return _of_launch(plan, pair, _Host(launch), parameters)
    return None


def script(path: str, reference: str, inputs: tuple[str, ...]) -> str:
    """Return the reference that calls ``Model.forward``; the paths are relative to the same folder."""
    model = os.path.relpath(path, Path(reference).parent).replace(os.sep, "/")
    given = ", ".join(f'inputs["{name}"]' for name in inputs)
    return (
        "from gpuemu.torch_model import load_model\n\n"
        f'model = load_model(__file__, "{model}", "{MODEL}")\n\n\n'
        "def reference(inputs, **kwargs):\n"
        f'    """Return {MODEL}.forward in fp64. The extension is neither built nor called."""\n'
        f"    return model({given})\n"
    )


def _of_launch(
    plan: Plan, pair: ModelPair, host: _Host, parameters: tuple[str, ...]
) -> tuple[Plan, tuple[str, ...]] | None:
    given = dict(zip(parameters, pair.arguments, strict=False))
    dims: dict[str, DimSpec] = {}
    for tensor_name, name in given.items():
        if name is not None and name in pair.shapes:
            host.shapes[tensor_name] = _dims(pair, name, dims)
    args: list[PlanArg] = []
    inputs: list[str] = []
    outputs = 0
    for arg, text in zip(plan.args, host.launch.arguments, strict=True):
        if isinstance(arg, ScalarArg):
            value = host.expression(text)
            if value is None and isinstance(arg.value, Expression):
                return None
            args.append(arg if value is None else replace(arg, value=value))
            continue
        tensor = host.tensor(text)
        parameter = host.parameter(tensor, parameters) if tensor is not None else None
        if parameter is not None:
            key, shape = given.get(parameter), host.shapes.get(parameter)
            if key is None or shape is None or arg.direction != "in":
                return None
            inputs.append(key)
            args.append(replace(arg, key=key, shape=tuple(map(parse, shape))))
            continue
        made = _made(host, tensor) if tensor is not None else None
        if made is None or arg.direction == "in":
            return None
        zeros = made[1] and arg.direction == "inout"
        outputs += 1
        args.append(replace(arg, shape=made[0], range=(0.0, 0.0) if zeros else arg.range))
    grid = [host.expression(text) for text in host.launch.grid]
    block = [host.expression(text) for text in host.launch.block]
    shared = host.expression(host.launch.shared) if host.launch.shared else parse(0)
    # Every input has to reach the kernel, which has to compute the whole result.
    if outputs != 1 or set(inputs) != set(pair.parameters) or shared is None:
        return None
    if any(part is None for part in (*grid, *block)):
        return None
    found = replace(
        plan,
        args=tuple(args),
        dims=_constrained(dims, plan, args),
        grid=tuple(part for part in grid if part is not None),
        block=tuple(part for part in block if part is not None),
        shared=shared,
    )
    return found, pair.parameters


def _dims(pair: ModelPair, name: str, dims: dict[str, DimSpec]) -> tuple[str, ...]:
    """Return the names of a tensor's sizes, and add the dims; equal numbers are one dim."""
    names = []
    shape = pair.shapes[name]
    for size in shape:
        dim = size if isinstance(size, str) else f"size_{size}"
        value = pair.sizes[size] if isinstance(size, str) else size
        if size == 1 or dim in pair.fixed:
            low = high = value
        else:
            low, high = 1, max(1, min(value, _LARGEST.get(len(shape), _LARGEST_OF_MANY)))
        before = dims.get(dim)
        high = high if before is None or before.maximum is None else min(high, before.maximum)
        dims[dim] = DimSpec(dim, min(low, high), high)
        names.append(dim)
    return tuple(names)


def _constrained(dims: Mapping[str, DimSpec], plan: Plan, args: list[PlanArg]) -> tuple[DimSpec, ...]:
    """Return the dims with the divisors that the kernel's own sizes have to have."""
    divisors = {dim.name: dim.multiple_of for dim in plan.dims if dim.multiple_of > 1}
    found = dict(dims)
    for before, arg in zip(plan.args, args, strict=True):
        if isinstance(before, ScalarArg) and isinstance(arg, ScalarArg):
            name, step = str(arg.value).strip("()"), divisors.get(str(before.value), 1)
            if name in found and step > 1 and found[name].minimum != found[name].maximum:
                step = math.lcm(step, found[name].multiple_of)
                high = max(found[name].maximum or step, step) // step * step
                found[name] = replace(found[name], minimum=step, maximum=high, multiple_of=step)
    return tuple(found.values())


def _made(host: _Host, tensor: str) -> tuple[tuple[Expression, ...], bool] | None:
    """Return the shape of a tensor that the host function makes, and whether it is filled with zeros."""
    text = host.launch.locals.get(tensor, "")
    zeros = _ZEROS.search(text) is not None
    if match := _LIKE.search(text) or _SIZES_OF.search(text):
        shape = host.shapes.get(host.origin(match[1]))
        return (tuple(map(parse, shape)), zeros) if shape is not None else None
    if match := _NEW.search(text):
        sizes = [host.expression(part) for part in match[2].split(",")]
        known = tuple(size for size in sizes if size is not None)
        return (known, zeros) if len(known) == len(sizes) else None
    return None


def _host_parameters(function: str, text: str) -> tuple[str, ...]:
    """Return the names of the parameters of a host function that is defined in a text."""
    match = re.search(rf"\b{re.escape(function)}\s*\(([^()]*)\)\s*\{{", text)
    if match is None:
        return ()
    return tuple(found[0] for part in match[1].split(",") if (found := re.findall(r"(\w+)\s*$", part.split("=")[0])))
