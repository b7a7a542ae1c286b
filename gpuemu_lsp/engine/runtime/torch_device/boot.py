"""What runs in a process of Python before the program: PyTorch gets its CUDA device when it is imported."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from gpuemu_lsp.engine.runtime.torch_device import TOOLKIT_VARIABLE, build_locks


def install() -> None:
    """Wait for the imports of PyTorch and Triton, if ``gpuemu run`` has started this process."""
    if TOOLKIT_VARIABLE in os.environ:
        sys.meta_path.insert(0, _Imports())


class _Imports(importlib.abc.MetaPathFinder):
    """Finds only what is changed when it has been imported: Triton, and the locks of builds.

    It loads the device before ``torch``, and completes ``torch._C`` before ``torch.cuda``: the library's constructors
    have to run before PyTorch asks whether there is a device, and ``torch.cuda`` looks at what ``torch._C`` has when it
    is imported. Of Triton the compiler and the autotuner are replaced.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Load and complete what the module needs; return None, but for what is changed once imported."""
        if fullname == "torch":
            from gpuemu_lsp.engine.runtime.torch_device import native_calls

            native_calls.library()
        elif fullname == "torch.cuda":
            self._complete(Path(path[0]) if path else Path())
        elif fullname == "triton":
            return self._found(fullname, _use_device)
        elif fullname == "torch.utils.file_baton":
            return self._found(fullname, build_locks.install)
        return None

    def _found(self, name: str, then: Callable[[ModuleType], None]) -> ModuleSpec | None:
        """Return the specification of a module, with which ``then`` is called when it has been executed."""
        sys.meta_path.remove(self)
        try:
            spec = importlib.util.find_spec(name)
        finally:
            sys.meta_path.insert(0, self)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def execute_and_then(module: ModuleType) -> None:
                execute(module)
                then(module)

            spec.loader.exec_module = execute_and_then  # type: ignore[method-assign]
        return spec

    @staticmethod
    def _complete(torch_folder: Path) -> None:
        from gpuemu_lsp.engine.runtime.torch_device import core_names, native_calls

        core_names.complete(sys.modules["torch"])
        for folder in (torch_folder, Path(__file__).parent, Path(os.__file__).parent):
            native_calls.ignore_lines(folder)


def _use_device(triton: ModuleType) -> None:
    from gpuemu_lsp.engine.runtime.torch_device import native_calls
    from gpuemu_lsp.engine.runtime.triton_launches import on_device

    native_calls.load_driver()
    native_calls.ignore_lines(Path(triton.__file__ or "").parent)
    on_device.install()
