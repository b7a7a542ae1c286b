"""What runs in a process of Python before the program: packages are completed when the program imports them."""

from __future__ import annotations

import importlib.abc
import importlib.util
import os
import sys
from collections.abc import Callable, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from gpuemu_lsp.engine.runtime.python_process import TOOLKIT_VARIABLE, cuda_bindings
from gpuemu_lsp.engine.runtime.torch_device import build_locks


def install() -> None:
    """Wait for the imports of the packages, if ``gpuemu run`` has started this process."""
    if TOOLKIT_VARIABLE in os.environ:
        sys.meta_path.insert(0, _Imports())


def _load_torch_device(_: Sequence[str] | None) -> None:
    from gpuemu_lsp.engine.runtime.torch_device import native_calls

    # Where the program's environment has no build of PyTorch that can have the device.
    if native_calls.is_built():
        native_calls.library()


def _complete_torch(path: Sequence[str] | None) -> None:
    from gpuemu_lsp.engine.runtime.python_process.runtime_library import ignore_lines
    from gpuemu_lsp.engine.runtime.torch_device import core_names, native_calls

    if native_calls.is_built():
        core_names.complete(sys.modules["torch"])
        ignore_lines(Path(path[0]) if path else Path())


def _use_bindings(_: Sequence[str] | None) -> None:
    from gpuemu_lsp.engine.runtime.python_process.runtime_library import ignore_lines

    cuda_bindings.install()
    ignore_lines()


def _use_triton(triton: ModuleType) -> None:
    from gpuemu_lsp.engine.runtime.python_process.runtime_library import ignore_lines
    from gpuemu_lsp.engine.runtime.triton_launches import on_device

    ignore_lines(Path(triton.__file__ or "").parent)
    on_device.install()


def _compile_cute(compiler: ModuleType) -> None:
    from gpuemu_lsp.engine.runtime.cute_launches import on_device
    from gpuemu_lsp.engine.runtime.python_process.runtime_library import ignore_lines

    ignore_lines(Path(compiler.__file__ or "").parents[2])
    on_device.use_ptx(compiler)


def _name_cute(dsl: ModuleType) -> None:
    from gpuemu_lsp.engine.runtime.cute_launches import on_device

    on_device.name_kernels(dsl)


def _use_warp(context: ModuleType) -> None:
    from gpuemu_lsp.engine.runtime.python_process.runtime_library import ignore_lines
    from gpuemu_lsp.engine.runtime.warp_launches import on_device

    ignore_lines(Path(context.__file__ or "").parents[1])
    on_device.install(context)


def _compile_tilelang(nvcc: ModuleType) -> None:
    from gpuemu_lsp.engine.runtime.python_process.runtime_library import ignore_lines
    from gpuemu_lsp.engine.runtime.tilelang_launches import on_device

    ignore_lines(Path(nvcc.__file__ or "").parents[1])
    on_device.compile_to_ptx(nvcc)


def _mark_tilelang(codegen: ModuleType) -> None:
    from gpuemu_lsp.engine.runtime.tilelang_launches import on_device

    on_device.mark_lines(codegen)


def _note_tilelang(builder: ModuleType) -> None:
    from gpuemu_lsp.engine.runtime.tilelang_launches import on_device

    on_device.note_statements(builder)


_BEFORE: dict[str, Callable[[Sequence[str] | None], None]] = {
    # The library's constructors have to run before PyTorch asks whether there is a device.
    "torch": _load_torch_device,
    # It looks at what ``torch._C`` has when it is imported.
    "torch.cuda": _complete_torch,
    cuda_bindings.USER: _use_bindings,
}
"""What is done before a module is imported; it gets the path of its package."""

_AFTER: dict[str, Callable[[ModuleType], None]] = {
    "triton": _use_triton,
    "torch.utils.file_baton": build_locks.install,
    "cutlass.base_dsl.compiler": _compile_cute,
    "cutlass.base_dsl.dsl": _name_cute,
    "warp._src.context": _use_warp,
    "tilelang.contrib.nvcc": _compile_tilelang,
    "tilelang.cuda.codegen": _mark_tilelang,
    "tilelang.language.eager.builder": _note_tilelang,
}
"""What is done with a module when it has been executed."""


class _Imports(importlib.abc.MetaPathFinder):
    """Finds only what is changed when it has been executed."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Do what the module needs before; return None, but for what is changed afterwards."""
        if fullname in _BEFORE:
            _BEFORE[fullname](path)
        return self._spec(fullname, _AFTER[fullname]) if fullname in _AFTER else None

    def _spec(self, name: str, then: Callable[[ModuleType], None]) -> ModuleSpec | None:
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
