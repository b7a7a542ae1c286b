"""Registration of a kernel against the PyTorch model in its file: ``Model.forward`` is its reference.

The host function of the extension says which tensor each argument of the kernel is, and what its sizes are;
``ModelNew.forward`` which input of the model that tensor is; ``get_inputs`` which sizes the inputs have.
"""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from pathlib import Path

from gpuemu_lsp.engine.hostcode.cpp.translation_units import unit_of
from gpuemu_lsp.engine.hostcode.values import Allocation, HostLaunch, Pointer, Value
from gpuemu_lsp.engine.kernel_names import plain_name
from gpuemu_lsp.engine.plan.host.chosen_launches import ReadHostLaunch, host_launches, is_complete
from gpuemu_lsp.engine.plan.model import Plan, PlanArg, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, parse
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.source import device_views
from gpuemu_lsp.engine.source.model import SourceFile
from gpuemu_lsp.engine.source.python.model_pair import MODEL, ModelPair
from gpuemu_lsp.engine.symbolic.expressions import expression_of
from gpuemu_lsp.engine.symbolic.size import ONE, ZERO, Size, multiply, substitute, symbol, symbols

_LARGEST = {1: 4096, 2: 128, 3: 32}
"""Largest size of a dimension by the rank of the tensor; that of the model is usually too large to emulate."""
_LARGEST_OF_MANY = 12


@dataclass(slots=True)
class _Host:
    """A launch in the host function of an extension.

    ``shapes`` are the dims of the tensors that the function is passed, ``sizes`` what the sizes that it reads of them
    stand for.
    """

    found: ReadHostLaunch
    shapes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    sizes: dict[str, Size] = field(default_factory=dict)

    @property
    def launch(self) -> HostLaunch:
        return self.found.launch

    def add(self, tensor: str, shape: tuple[str, ...]) -> None:
        """Give a tensor that the function is passed its dims."""
        self.shapes[tensor] = shape
        extents = [symbol(dim, 1) for dim in shape]
        for axis, extent in enumerate(extents):
            self.sizes[f"{tensor}_size_{axis}"] = self.sizes[f"{tensor}_size_m{len(shape) - axis}"] = extent
        self.sizes[f"{tensor}_numel"] = reduce(multiply, extents, ONE)

    def parameter(self, pointer: Pointer) -> str | None:
        """Return the tensor that the function is passed to whose first element an argument points."""
        return self.found.run.tensors.get(pointer.allocation or 0) if pointer.offset == ZERO else None

    def made(self, pointer: Pointer) -> Allocation | None:
        """Return the tensor that the function makes to whose first element an argument points."""
        memory = self.launch.memory.get(pointer.allocation or 0)
        return memory if memory is not None and memory.space == "device" and pointer.offset == ZERO else None

    def shape(self, memory: Allocation) -> tuple[Expression, ...] | None:
        """Return the shape of a tensor that the function makes: from sizes, or like one that it is passed."""
        if memory.sizes is not None:
            sizes = tuple(map(self.expression, memory.sizes))
            return None if None in sizes else tuple(size for size in sizes if size is not None)
        like = (dims for tensor, dims in self.shapes.items() if memory.elements == symbol(f"{tensor}_numel", 1))
        return next((tuple(map(parse, dims)) for dims in like), None)

    def expression(self, value: Value | None) -> Expression | None:
        """Return a size as an expression over dims; None for one that others decide."""
        if not isinstance(value, Size) or not symbols(value) <= self.sizes.keys():
            return None
        return expression_of(substitute(value, self.sizes))


def model_plan(
    plan: Plan, pair: ModelPair, source: SourceFile, include_dirs: Sequence[str]
) -> tuple[Plan, tuple[str, ...]] | None:
    """Return the plan of a kernel with the sizes of the model's inputs, and the inputs in the model's order.

    None if the launch does not determine what each argument is, or the kernel gets other tensors than the model.
    """
    name = plain_name(plan.entry)
    functions = unit_of(device_views(source.path, source.text, include_dirs)).functions.get(pair.function, ())
    parameters = next((tuple(each.name for each in function.body.parameters) for function in functions), ())
    for found in host_launches(source, name, include_dirs, called=False):
        launch = found.launch
        alike = launch.function == pair.function and len(launch.arguments) == len(plan.args)
        if alike and is_complete(launch):
            return _of_launch(plan, pair, _Host(found), parameters)
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
    for tensor, name in given.items():
        if name is not None and name in pair.shapes:
            host.add(tensor, _dims(pair, name, dims))
    args: list[PlanArg] = []
    inputs: list[str] = []
    for arg, value in zip(plan.args, host.launch.arguments, strict=True):
        if isinstance(arg, ScalarArg):
            size = host.expression(value)
            if size is None and isinstance(arg.value, Expression):
                return None
            args.append(arg if size is None else replace(arg, value=size))
            continue
        parameter = host.parameter(value) if isinstance(value, Pointer) else None
        key = given.get(parameter or "")
        if key is not None and parameter in host.shapes and arg.direction == "in":
            inputs.append(key)
            args.append(replace(arg, key=key, shape=tuple(map(parse, host.shapes[parameter]))))
            continue
        output = _output(host, arg, value)
        if output is None:
            return None
        args.append(output)
    grid, block, shared = (
        [host.expression(size) for size in part]
        for part in (host.launch.grid, host.launch.block, (host.launch.shared,))
    )
    # Every input has to reach the kernel, which has to compute the whole result.
    outputs = len(plan.args) - len(inputs) - sum(isinstance(arg, ScalarArg) for arg in args)
    if outputs != 1 or set(inputs) != set(pair.parameters) or None in (*grid, *block, *shared):
        return None
    found = replace(
        plan,
        args=tuple(args),
        dims=_constrained(dims, plan, args),
        grid=tuple(part for part in grid if part is not None),
        block=tuple(part for part in block if part is not None),
        shared=shared[0] or parse(0),
    )
    return found, pair.parameters


def _output(host: _Host, arg: TensorArg, value: Value) -> TensorArg | None:
    """Return the argument for a tensor that the host function makes, which is not initialised or has zeros."""
    memory = host.made(value) if isinstance(value, Pointer) and arg.direction != "in" else None
    shape = host.shape(memory) if memory is not None else None
    if memory is None or shape is None:
        return None
    zeros = memory.contents.low == ZERO and memory.contents.high == ONE
    return replace(arg, shape=shape, range=(0.0, 0.0) if zeros and arg.direction == "inout" else arg.range)


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
