"""References that are PyTorch modules: the forward pass of a model in fp64, on the CPU.

For files that hold a model next to its CUDA version, such as those of KernelBench (``Model``, ``ModelNew``,
``get_inputs``, ``get_init_inputs``)::

    from gpuemu.torch_model import load_model

    model = load_model(__file__, "relu.py")

    def reference(inputs, **kwargs):
        return model(inputs["x"])

The file is executed, but for the compilation of its extensions: they are neither built nor called.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

_MODULE = "_gpuemu_torch_model"


def load_model(script: str, path: str, name: str = "Model", seed: int = 0) -> Callable[..., Any]:
    """Return the forward pass of a model as a function of NumPy arrays.

    Parameters
    ----------
    script : str
        The file that ``path`` is relative to: ``__file__`` of the reference.
    path : str
        The file with the model.
    name : str
        The class. Its arguments are those that ``get_init_inputs()`` of the file returns, if there is one.
    seed : int
        Seed of PyTorch's generator for the model's parameters.

    Returns
    -------
    Callable
        Called with arrays and numbers. Floating-point arrays are computed in fp64; the result is one array, or a
        tuple of them.

    Raises
    ------
    ModuleNotFoundError
        If PyTorch is not installed.
    """
    import torch

    module = _module(Path(script).resolve().parent / path)
    arguments: Any = getattr(module, "get_init_inputs", list)()
    torch.manual_seed(seed)
    keywords = arguments[1] if len(arguments) == 2 and isinstance(arguments[1], dict) else {}
    positional = arguments[0] if len(arguments) == 2 and isinstance(arguments[1], dict) else arguments
    model = getattr(module, name)(*positional, **keywords).double().eval()

    def forward(*inputs: Any) -> Any:
        with torch.no_grad():
            result = model(*map(_tensor, inputs))
        return tuple(map(_array, result)) if isinstance(result, list | tuple) else _array(result)

    return forward


def _tensor(value: Any) -> Any:
    import torch

    if not isinstance(value, np.ndarray):
        return value
    copy = np.array(value)
    return torch.from_numpy(copy.astype(np.float64) if copy.dtype.kind == "f" else copy)


def _array(value: Any) -> Any:
    return value.detach().numpy() if hasattr(value, "detach") else value


def _module(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(_MODULE, path)
    if spec is None or spec.loader is None:
        raise FileNotFoundError(path)
    module = importlib.util.module_from_spec(spec)
    with _without_extensions():
        spec.loader.exec_module(module)
    return module


class _NotBuilt:
    """The result of ``load_inline`` and ``load`` while a model is loaded; its functions cannot be called."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)

        def function(*_args: Any, **_kwargs: Any) -> Any:
            raise RuntimeError(f"{name} belongs to an extension, which is not built for a reference")

        return function


@contextmanager
def _without_extensions() -> Iterator[None]:
    from torch.utils import cpp_extension

    names = ("load_inline", "load")
    before = {name: getattr(cpp_extension, name) for name in names}
    try:
        for name in names:
            setattr(cpp_extension, name, lambda *_args, **_kwargs: _NotBuilt())
        yield
    finally:
        for name, function in before.items():
            setattr(cpp_extension, name, function)
