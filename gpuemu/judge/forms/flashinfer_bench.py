"""Solutions of FlashInfer-Bench: JSON with sources and an entry point, for a definition in JSON with a reference.

Constant axes of a definition are sizes of the layer, which kernels may contain as numbers; the others are those of
workloads in the file of its name. Inputs are normally distributed, as the benchmark's random ones; those of a workload
that are stored as tensors are not read.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

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
            if isinstance(_json(file), dict) and "axes" in _json(file):
                return file
    return None


def texts(solution: Mapping[str, Any], definition: Path) -> Texts:
    """Return a solution and its definition as modules.

    Raises
    ------
    ValueError, KeyError
        If one of them is not of the benchmark's schema.
    """
    schema = _json(definition)
    model = _model("Model", schema, "run", destination=False)
    tasks = tuple(
        f"{schema['reference']}\n{_inputs(schema, workload)}{model}" for workload in _workloads(definition, schema)
    )
    return Texts(_answer(solution, schema), tasks, {one["path"]: one["content"] for one in solution["sources"]})


def _answer(solution: Mapping[str, Any], schema: Mapping[str, Any]) -> str:
    spec = solution["spec"]
    file, _, symbol = spec["entry_point"].partition("::")
    sources = {one["path"]: one["content"] for one in solution["sources"]}
    destination = spec.get("destination_passing_style", True)
    if Path(file).suffix == ".py":
        return f"{sources[file]}\n{_model('ModelNew', schema, symbol, destination=destination)}"
    binding = spec.get("binding") or "tvm-ffi"
    if binding != "torch":
        reason = f"solutions with the binding {binding} are not supported: their binding must be torch"
        return f"raise ModuleNotFoundError({reason!r})\n"
    compiled = [path for path in sources if Path(path).suffix in _COMPILED]
    return f"""from pathlib import Path as _Path

from torch.utils.cpp_extension import load as _load

_folder = _Path(__file__).parent
_extension = _load(
    name="answer",
    sources=[str(_folder / name) for name in {compiled!r}],
    extra_include_paths=[str(_folder)],
    with_cuda={spec["language"] == "cuda"},
)
{_model("ModelNew", schema, f"_extension.{symbol}", destination=destination)}"""


def _model(name: str, schema: Mapping[str, Any], function: str, *, destination: bool) -> str:
    """Return a class that calls a function with the inputs, and with new outputs where it fills them."""
    inputs, outputs, axes = list(schema["inputs"]), schema["outputs"], schema["axes"]
    constant = [axis for axis, value in axes.items() if value["type"] == "const"]
    lines = ["import torch as _torch", "", "", f"class {name}(_torch.nn.Module):"]
    lines += [f"    def __init__(self{''.join(f', {axis}' for axis in constant)}):", "        super().__init__()"]
    lines += [f"        self.{axis} = {axis}" for axis in constant]
    lines += ["", f"    def forward(self, {', '.join(inputs)}):"]
    if not destination:
        return "\n".join([*lines, f"        return {function}({', '.join(inputs)})", ""])
    device = next((name for name, one in schema["inputs"].items() if one["shape"]), None)
    for output, tensor in outputs.items():
        shape = ", ".join(_size(axis, schema, constant) for axis in tensor["shape"])
        place = f", device={device}.device" if device else ""
        lines.append(f"        {output} = _torch.empty([{shape}], dtype=_torch.{tensor['dtype']}{place})")
    lines += [f"        {function}({', '.join([*inputs, *outputs])})", f"        return {', '.join(outputs)}", ""]
    return "\n".join(lines)


def _size(axis: str, schema: Mapping[str, Any], constant: Sequence[str]) -> str:
    """Return the expression of an axis: a dimension of an input, or an argument of the constructor."""
    if axis in constant:
        return f"self.{axis}"
    for name, tensor in schema["inputs"].items():
        if axis in (tensor["shape"] or ()):
            return f"{name}.shape[{tensor['shape'].index(axis)}]"
    raise ValueError(f"no input has the axis {axis} of an output")


def _inputs(schema: Mapping[str, Any], workload: Mapping[str, Any]) -> str:
    axes = schema["axes"]
    given = workload.get("axes", {})
    lines = [_STORED]
    for axis, value in axes.items():
        lines.append(f"axis_{axis} = {value['value'] if value['type'] == 'const' else given.get(axis, _DEFAULT_SIZE)}")
    constant = [axis for axis, value in axes.items() if value["type"] == "const"]
    lines += ["", "", "def get_init_inputs():", f"    return [{', '.join(f'axis_{axis}' for axis in constant)}]"]
    lines += ["", "", "def get_inputs():", "    return ["]
    for name, tensor in schema["inputs"].items():
        lines.append(f"        {_value(name, tensor, workload.get('inputs', {}).get(name, {}))},")
    return "\n".join([*lines, "    ]", "", ""])


_STORED = """
import torch as _torch


def _stored(name, dtype):
    raise ValueError(f"input {name} of {dtype} has values of its own, which are not read")


"""


def _value(name: str, tensor: Mapping[str, Any], source: Mapping[str, Any]) -> str:
    """Return the expression of an input."""
    if source.get("type") == "scalar":
        return repr(source["value"])
    if tensor["shape"] is None:
        return "1.0" if "float" in tensor["dtype"] else "1"
    shape = ", ".join(f"axis_{axis}" for axis in tensor["shape"])
    if "float" in tensor["dtype"] and source.get("type", "random") == "random":
        return f"_torch.randn([{shape}]).to(_torch.{tensor['dtype']})"
    # Indices of pages, lengths of sequences: at random they would mean nothing.
    return f"_stored({name!r}, {tensor['dtype']!r})"


def _workloads(definition: Path, schema: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Return the workloads of a definition that are tried, from the folder next to that of definitions."""
    workloads = []
    for folder in definition.absolute().parents[:4]:
        for file in sorted((folder / "workloads").rglob(f"{schema['name']}.jsonl")):
            records = map(json.loads, file.read_text(encoding="utf-8").splitlines())
            workloads += [record.get("workload", record) for record in records]
    by_axes = {json.dumps(workload["axes"], sort_keys=True): workload for workload in reversed(workloads)}
    axes = varied(json.loads(text) for text in by_axes)
    return [by_axes[json.dumps(one, sort_keys=True)] for one in axes] or [{}]


def _json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
