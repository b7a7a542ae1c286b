"""A task of a benchmark, loaded with chosen sizes: the model, the arguments of its constructor, and its inputs.

Code of the task is executed, which is why only the process of :mod:`.task_process` imports this module.
"""

from __future__ import annotations

import re
import sys
import types
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gpuemu.judge.literals import Literal, with_values


@dataclass(frozen=True, slots=True)
class Task:
    """The names that a task defines: ``model`` is a class, ``inputs`` and ``init_inputs`` are functions."""

    model: Any
    inputs: Any
    init_inputs: Any

    def constructed(self, seed: int) -> Any:
        """Return the model with the weights that a seed gives."""
        positional, named = constructor_arguments(self.init_inputs())
        torch.manual_seed(seed)
        return self.model(*positional, **named)


def load_task(text: str, path: str, sizes: Mapping[Literal, int], model: str = "Model") -> Task:
    """Execute the text of a task with sizes in place of its own.

    Raises
    ------
    TaskError
        If it fails, or lacks one of the names.
    """
    module = types.ModuleType("_gpuemu_task")
    module.__file__ = path
    sys.modules[module.__name__] = module  # where `dataclass` looks up names
    try:
        exec(compile(_on_the_cpu(with_values(text, sizes)), path, "exec"), module.__dict__)  # noqa: S102 - the task, in its own child
        return Task(getattr(module, model), module.get_inputs, getattr(module, "get_init_inputs", list))
    except Exception as error:
        raise TaskError(f"{type(error).__name__}: {error}") from error


_CUDA = re.compile(r"""(?<=['"])cuda(?::0)?(?=['"])""")
_MOVED = re.compile(r"\.cuda\((?:[^()]|\([^()]*\))*\)")


def _on_the_cpu(text: str) -> str:
    """Return the text with the CPU in place of CUDA devices that it names, as ``device="cuda"`` and ``x.cuda()``."""
    return _MOVED.sub(".cpu()", _CUDA.sub("cpu", text))


class TaskError(Exception):
    """The task cannot be loaded, or its model fails."""


def constructor_arguments(values: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the named arguments of a constructor from what ``get_init_inputs`` returns."""
    if isinstance(values, dict):
        return (), values
    values = list(values)
    if len(values) == 2 and isinstance(values[1], dict) and isinstance(values[0], list | tuple):
        return tuple(values[0]), values[1]
    return tuple(values), {}
