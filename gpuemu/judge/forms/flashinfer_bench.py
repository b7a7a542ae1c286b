"""Solutions of FlashInfer-Bench: JSON with sources and an entry point, for a definition in JSON with a reference.

Constant axes of a definition are sizes of the layer, which kernels may contain as numbers; the others are those of
workloads in the file of its name. Inputs are normally distributed, as the benchmark's random ones; those of a workload
that are stored as tensors are not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from gpuemu.judge.forms.fields import Field, json_file, json_lines
from gpuemu.judge.forms.settings import varied
from gpuemu.judge.model import Texts

_COMPILED = frozenset({".cu", ".cpp", ".cc", ".cxx", ".c"})
_OF_SOLUTIONS = frozenset({"spec", "sources"})
_ENTRY_POINT = re.compile(r'"entry_point"\s*:')
_DEFAULT_SIZE = 256
"""That of an axis without a workload."""


def is_solution(record: Any) -> bool:
    """Return whether a JSON value is a solution, maybe one that lacks something."""
    return isinstance(record, dict) and "definition" in record and not _OF_SOLUTIONS.isdisjoint(record)


def seems_solution(text: str) -> bool:
    """Return whether a text that is not JSON seems to be a solution."""
    return _ENTRY_POINT.search(text) is not None


def definition_file(solution: Path, record: Mapping[str, Any], references: Sequence[Path]) -> Path | None:
    """Return the file of the definition that a solution names, below a reference or a folder above the solution."""
    name = f"{record['definition']}.json"
    folders = [*references, *(parent / "definitions" for parent in solution.absolute().parents[:5])]
    for folder in folders:
        if folder.is_file() and folder.name == name:
            return folder
        for file in sorted(folder.rglob(name)) if folder.is_dir() else ():
            if file.absolute() != solution.absolute():
                return file
    return None


def texts(file: Path, definition_path: Path) -> Texts:
    """Return a solution and its definition as modules.

    Raises
    ------
    FormError
        If one of them is not of the benchmark's schema.
    """
    solution, schema = json_file(file), _schema(definition_path)
    sources = _sources(solution)
    model = _model("Model", schema, "run", destination=False)
    tasks = tuple(
        f"{schema.reference}\n{_inputs(schema, workload)}{model}" for workload in _workloads(definition_path, schema)
    )
    return Texts(_answer(solution, sources, schema), tasks, sources)


@dataclass(frozen=True, slots=True)
class _Tensor:
    """An input or output: its shape as names of axes, None for a scalar."""

    shape: tuple[str, ...] | None
    dtype: str


@dataclass(frozen=True, slots=True)
class _Schema:
    """A definition; ``axes`` have the size of those that are constant, None for the others."""

    name: str
    axes: Mapping[str, int | None]
    inputs: Mapping[str, _Tensor]
    outputs: Mapping[str, _Tensor]
    reference: str

    @property
    def constant(self) -> list[str]:
        return [axis for axis, size in self.axes.items() if size is not None]


def _schema(path: Path) -> _Schema:
    definition = json_file(path)
    axes = {name: _axis(axis) for name, axis in definition.key("axes").fields().items()}
    inputs, outputs = (
        {name: _tensor(tensor, axes) for name, tensor in definition.key(key).fields().items()}
        for key in ("inputs", "outputs")
    )
    given = {axis for tensor in inputs.values() for axis in tensor.shape or ()}
    for name, tensor in outputs.items():
        unknown = [axis for axis in tensor.shape or () if axes[axis] is None and axis not in given]
        if unknown:
            raise (
                definition.key("outputs").key(name).key("shape").error(f"has the axis {unknown[0]}, which no input has")
            )
    return _Schema(definition.key("name").text(), axes, inputs, outputs, definition.key("reference").text())


def _axis(axis: Field) -> int | None:
    kind = axis.key("type")
    if kind.value not in ("const", "var"):
        raise kind.error(f"is {kind.value!r}; `const` and `var` are read")
    return axis.key("value").size() if kind.value == "const" else None


def _tensor(tensor: Field, axes: Mapping[str, int | None]) -> _Tensor:
    dtype, shape = tensor.key("dtype").text(), tensor.optional("shape")
    if shape is None:
        return _Tensor(None, dtype)
    names = shape.items()
    for name in names:
        if name.text() not in axes:
            raise name.error(f"is {name.value}, which is none of the axes")
    return _Tensor(tuple(name.value for name in names), dtype)


def _sources(solution: Field) -> dict[str, str]:
    """Return the texts of the files of a solution, whose names stay in its folder."""
    sources = {}
    for source in solution.key("sources").items():
        name = source.key("path")
        path = PurePosixPath(name.text())
        if path.is_absolute() or ".." in path.parts:
            raise name.error(f"is {path}, which is not in the folder of the solution")
        sources[str(path)] = source.key("content").text()
    return sources


def _answer(solution: Field, sources: Mapping[str, str], schema: _Schema) -> str:
    spec = solution.key("spec")
    entry = spec.key("entry_point")
    file, _, symbol = entry.text().partition("::")
    if file not in sources:
        raise entry.error(f"names {file}, which is none of the sources")
    if not symbol.isidentifier():
        raise entry.error("names no function after `::`")
    style, named = spec.optional("destination_passing_style"), spec.optional("binding")
    destination = style is None or bool(style.value)
    if PurePosixPath(file).suffix == ".py":
        return f"{sources[file]}\n{_model('ModelNew', schema, symbol, destination=destination)}"
    binding = named.text() if named is not None else "tvm-ffi"
    if binding != "torch":
        reason = f"solutions with the binding {binding} are not supported: their binding must be torch"
        return f"raise ModuleNotFoundError({reason!r})\n"
    compiled = [path for path in sources if PurePosixPath(path).suffix in _COMPILED]
    return f"""from pathlib import Path as _Path

from torch.utils.cpp_extension import load as _load

_folder = _Path(__file__).parent
_extension = _load(
    name="answer",
    sources=[str(_folder / name) for name in {compiled!r}],
    extra_include_paths=[str(_folder)],
    with_cuda={spec.key("language").text() == "cuda"},
)
{_model("ModelNew", schema, f"_extension.{symbol}", destination=destination)}"""


def _model(name: str, schema: _Schema, function: str, *, destination: bool) -> str:
    """Return a class that calls a function with the inputs, and with new outputs where it fills them."""
    inputs = list(schema.inputs)
    lines = ["import torch as _torch", "", "", f"class {name}(_torch.nn.Module):"]
    lines += [
        f"    def __init__(self{''.join(f', {axis}' for axis in schema.constant)}):",
        "        super().__init__()",
    ]
    lines += [f"        self.{axis} = {axis}" for axis in schema.constant]
    lines += ["", f"    def forward(self, {', '.join(inputs)}):"]
    if not destination:
        return "\n".join([*lines, f"        return {function}({', '.join(inputs)})", ""])
    device = next((name for name, one in schema.inputs.items() if one.shape), None)
    for output, tensor in schema.outputs.items():
        shape = ", ".join(_size(axis, schema) for axis in tensor.shape or ())
        place = f", device={device}.device" if device else ""
        lines.append(f"        {output} = _torch.empty([{shape}], dtype=_torch.{tensor.dtype}{place})")
    lines += [f"        {function}({', '.join([*inputs, *schema.outputs])})"]
    return "\n".join([*lines, f"        return {', '.join(schema.outputs)}", ""])


def _size(axis: str, schema: _Schema) -> str:
    """Return the expression of an axis: a dimension of an input, or an argument of the constructor."""
    shapes = {name: tensor.shape for name, tensor in schema.inputs.items() if tensor.shape and axis in tensor.shape}
    if axis in schema.constant or not shapes:
        return f"self.{axis}"
    name, shape = next(iter(shapes.items()))
    return f"{name}.shape[{shape.index(axis)}]"


def _inputs(schema: _Schema, workload: _Workload) -> str:
    lines = [_STORED]
    for axis, value in schema.axes.items():
        lines.append(f"axis_{axis} = {workload.axes.get(axis, _DEFAULT_SIZE) if value is None else value}")
    lines += ["", "", "def get_init_inputs():"]
    lines += [f"    return [{', '.join(f'axis_{axis}' for axis in schema.constant)}]"]
    lines += ["", "", "def get_inputs():", "    return ["]
    lines += [f"        {_value(name, one, workload.inputs.get(name, {}))}," for name, one in schema.inputs.items()]
    return "\n".join([*lines, "    ]", "", ""])


_STORED = """
import torch as _torch


def _stored(name, dtype):
    raise ValueError(f"input {name} of {dtype} has values of its own, which are not read")


"""


def _value(name: str, tensor: _Tensor, source: Mapping[str, Any]) -> str:
    """Return the expression of an input."""
    if source.get("type") == "scalar":
        return repr(source["value"])
    if tensor.shape is None:
        return "1.0" if "float" in tensor.dtype else "1"
    shape = ", ".join(f"axis_{axis}" for axis in tensor.shape)
    if "float" in tensor.dtype and source.get("type", "random") == "random":
        return f"_torch.randn([{shape}]).to(_torch.{tensor.dtype})"
    # Indices of pages, lengths of sequences: at random they would mean nothing.
    return f"_stored({name!r}, {tensor.dtype!r})"


@dataclass(frozen=True, slots=True)
class _Workload:
    """Sizes of the axes that are not constant, and where the inputs are from."""

    axes: Mapping[str, int]
    inputs: Mapping[str, Mapping[str, Any]]


def _workloads(definition: Path, schema: _Schema) -> list[_Workload]:
    """Return the workloads of a definition that are tried, from the folder next to that of definitions."""
    workloads = []
    for folder in definition.absolute().parents[:4]:
        for file in sorted((folder / "workloads").rglob(f"{schema.name}.jsonl")):
            workloads += [_workload(record.optional("workload") or record) for record in json_lines(file)]
    by_axes = {json.dumps(workload.axes, sort_keys=True): workload for workload in reversed(workloads)}
    axes = varied(json.loads(text) for text in by_axes)
    return [by_axes[json.dumps(one, sort_keys=True)] for one in axes] or [_Workload({}, {})]


def _workload(record: Field) -> _Workload:
    inputs = record.optional("inputs")
    sources = inputs.fields() if inputs is not None else {}
    for source in sources.values():
        if source.key("type").value == "scalar":
            source.key("value")
    axes = {name: axis.size() for name, axis in record.key("axes").fields().items()}
    return _Workload(axes, {name: source.value for name, source in sources.items()})
