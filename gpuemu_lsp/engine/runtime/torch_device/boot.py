"""What runs in a process of Python before the program: PyTorch gets its CUDA device when it is imported."""

from __future__ import annotations

import importlib.abc
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType

from gpuemu_lsp.engine.runtime.torch_device import TOOLKIT_VARIABLE


def install() -> None:
    """Wait for the import of PyTorch, if ``gpuemu run`` has started this process."""
    if TOOLKIT_VARIABLE in os.environ:
        sys.meta_path.insert(0, _BeforeTorch())


class _BeforeTorch(importlib.abc.MetaPathFinder):
    """Finds nothing: it loads the device before ``torch``, and completes ``torch._C`` before ``torch.cuda``.

    The library's constructors have to run before PyTorch asks whether there is a device, and ``torch.cuda`` looks at
    what ``torch._C`` has when it is imported.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Load and complete what the module needs; return None."""
        if fullname == "torch":
            from gpuemu_lsp.engine.runtime.torch_device import native_calls

            native_calls.library()
        elif fullname == "torch.cuda":
            sys.meta_path.remove(self)
            self._complete(Path(path[0]) if path else Path())
        return None

    @staticmethod
    def _complete(torch_folder: Path) -> None:
        from gpuemu_lsp.engine.runtime.torch_device import core_names, native_calls

        core_names.complete(sys.modules["torch"])
        native_calls.report_lines(torch_folder)
