"""Answers of robust-kbench: ``forward.cu`` or ``backward.cu``, an extension that replaces one function of the task.

The task's ``Model.forward(..., fn=forward_fn)`` takes that function; ``config_forward.json`` has the settings with
which its inputs and its model are made. An answer to a backward pass is compared by the gradients of inputs and of
weights.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuemu.judge.forms.fields import Field, FormError, json_file
from gpuemu.judge.forms.settings import MOST_SETTINGS
from gpuemu.judge.model import Texts

_FUNCTION = re.compile(r'\bdef\(\s*"(forward|backward)"')
_FLAGS = ["-O3", "--use_fast_math"]
"""With which the benchmark compiles."""


@dataclass(frozen=True, slots=True)
class ExtensionTask:
    """The task of an extension: its module, the file with its settings, and whether it is the backward pass."""

    module: Path
    config: Path
    backward: bool


def is_extension(text: str) -> bool:
    """Return whether a source is an extension with one of the functions that a task replaces."""
    return _FUNCTION.search(text) is not None


def task_of(extension: Path, references: Sequence[Path]) -> ExtensionTask | None:
    """Return the task of a ``.cu`` file: next to it, in a folder above, or below a reference in one of their names."""
    text = extension.read_text(encoding="utf-8", errors="replace")
    match = _FUNCTION.search(text)
    direction = match[1] if match is not None else "forward"
    parents = extension.absolute().parents[:4]
    folders = [reference.parent if reference.is_file() else reference for reference in references]
    named = [folder / parent.name for folder in folders for parent in parents]
    for folder in (*folders, *named, *parents[:2]):
        module, config = folder / f"func_{direction}.py", folder / f"config_{direction}.json"
        if module.is_file():
            return ExtensionTask(module, config, direction == "backward")
    return None


def texts(extension: Path, task: ExtensionTask) -> Texts:
    """Return an extension and its task, with each of its settings, as modules.

    Raises
    ------
    FormError
        If the settings are not of the benchmark's form, or the task is not Python.
    """
    text = task.module.read_text(encoding="utf-8")
    end, answer = _BACKWARD_FORMS if task.backward else _FORWARD_FORMS
    tasks = tuple(f"{text}{setting.text()}{end}" for setting in _settings(task))
    model = "GradientModel" if task.backward else "Model"
    return Texts(answer.format(path=str(extension.absolute()), flags=_FLAGS), tasks, task_model=model)


_FORWARD_FORMS = (
    "",
    """from task import Model as _Model
from torch.utils.cpp_extension import load as _load

_extension = _load(name="answer", sources=[{path!r}], extra_cuda_cflags={flags!r}, with_cuda=True)


class ModelNew(_Model):
    def forward(self, *inputs):
        return super().forward(*inputs, fn=_extension.forward)
""",
)
_BACKWARD_FORMS = (
    """
from gpuemu.judge.gradients import gradients as _gradients


class GradientModel(Model):
    def forward(self, *inputs):
        return _gradients(self, super().forward, inputs)
""",
    """from gpuemu.judge.gradients import gradients as _gradients
from task import AutogradFunction as _Function, Model as _Model
from torch.utils.cpp_extension import load as _load

_extension = _load(name="answer", sources=[{path!r}], extra_cuda_cflags={flags!r}, with_cuda=True)
_Function.backward_fn = _extension.backward


class ModelNew(_Model):
    def forward(self, *inputs):
        forward = super().forward
        return _gradients(self, lambda *values: forward(*values, fn=_Function.apply), inputs)
""",
)
"""What follows the text of the task, and the text of the answer, for both directions."""


@dataclass(frozen=True, slots=True)
class _Setting:
    """Arguments of ``get_inputs`` and of the model's constructor, by name."""

    inputs: Mapping[str, Any]
    init: Mapping[str, Any]

    def text(self) -> str:
        """Return the functions that make inputs and arguments of the model; each number is in one place."""
        names = "\n".join(f"task_{name} = {value!r}" for name, value in {**self.inputs, **self.init}.items())
        inputs = ", ".join(f"{name}=task_{name}" for name in self.inputs)
        init = ", ".join(f"{name!r}: task_{name}" for name in self.init)
        return f"""

{names}
_get_inputs = get_inputs


def get_inputs():
    return _get_inputs({inputs})


def get_init_inputs():
    return [[], {{{init}}}]
"""


def _settings(task: ExtensionTask) -> Iterator[_Setting]:
    """Yield the settings of a task: those of its file over the default values of its functions."""
    inputs, init = _arguments(task.module)
    lists = _lists(task.config, inputs, init)
    several = any(lists.get("multi_input_configs", ())) or any(lists.get("multi_init_configs", ()))
    kind = "multi" if several else "single"
    own_init, own_inputs, shared = (lists.get(f"{kind}_{part}_configs") or [{}] for part in ("init", "input", "shared"))
    # Each entry of each list once, instead of all combinations.
    for place in range(min(max(len(own_init), len(own_inputs), len(shared)), MOST_SETTINGS)):
        both = shared[place % len(shared)]
        yield _Setting(
            {**inputs.constants, **own_inputs[place % len(own_inputs)], **both},
            {**init.constants, **own_init[place % len(own_init)], **both},
        )


@dataclass(frozen=True, slots=True)
class _Arguments:
    """The names of a function's arguments, None if it takes any, and the constants among their default values."""

    function: str
    names: frozenset[str] | None
    constants: Mapping[str, Any]

    def check(self, setting: Field) -> None:
        """Raise an error on a value that is not an argument."""
        for name, value in setting.fields().items():
            if self.names is not None and name not in self.names:
                raise value.error(f"is not an argument of {self.function}")


def _lists(config: Path, inputs: _Arguments, init: _Arguments) -> dict[str, list[Mapping[str, Any]]]:
    """Return the lists of settings in a file, by their names."""
    lists: dict[str, list[Mapping[str, Any]]] = {}
    for name, settings in json_file(config).fields().items() if config.is_file() else ():
        if not name.endswith("_configs") or settings.value is None:
            continue
        for setting in settings.items():
            for arguments, kind in ((inputs, "init"), (init, "input")):
                if kind not in name:
                    arguments.check(setting)
        lists[name] = settings.value
    return lists


def _arguments(module: Path) -> tuple[_Arguments, _Arguments]:
    """Return the arguments of a task's ``get_inputs`` and of its model's constructor."""
    try:
        statements = ast.parse(module.read_text(encoding="utf-8")).body
    except SyntaxError as error:
        raise FormError(f"{module}:{error.lineno}: is not Python: {error.msg}") from error
    functions: dict[str, ast.FunctionDef] = {}
    for node in statements:
        if isinstance(node, ast.FunctionDef):
            functions[node.name] = node
        elif isinstance(node, ast.ClassDef) and node.name == "Model":
            functions |= {inner.name: inner for inner in node.body if isinstance(inner, ast.FunctionDef)}
    return _of_function(functions, "get_inputs"), _of_function(functions, "__init__")


def _of_function(functions: Mapping[str, ast.FunctionDef], name: str) -> _Arguments:
    if name not in functions:
        return _Arguments(name, None, {})
    arguments = functions[name].args
    pairs = zip(arguments.args[len(arguments.args) - len(arguments.defaults) :], arguments.defaults, strict=True)
    constants = {one.arg: value.value for one, value in pairs if isinstance(value, ast.Constant)}
    names = frozenset(one.arg for one in (*arguments.args, *arguments.kwonlyargs))
    return _Arguments(name, None if arguments.kwarg else names, constants)
