"""CuPy's low-level CUDA bindings as ``CUDA``: an import of this module takes half a second, and fails without CuPy.

CuPy makes a folder for kernels that it compiles, where it stores nothing of ours, and cannot be imported a second time
after that failed. It gets another one where its own cannot be made, as in a home that is read only.
"""

from __future__ import annotations

import importlib
import os
import tempfile
from pathlib import Path
from typing import Any


def _choose_folder() -> None:
    own = os.environ.get("CUPY_CACHE_DIR") or "~/.cupy/kernel_cache"
    try:
        Path(own).expanduser().mkdir(parents=True, exist_ok=True)
    except (OSError, RuntimeError):  # a RuntimeError if there is no home
        os.environ["CUPY_CACHE_DIR"] = tempfile.gettempdir()


_choose_folder()
CUDA: Any = importlib.import_module("cupy.cuda")
