"""What Python imports first under ``gpuemu run``: our hook of imports, then the user's own ``sitecustomize``."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

from gpuemu_lsp.engine.runtime.python_boot import boot

boot.install()

_others = [path for path in sys.path if Path(path).resolve() != Path(__file__).resolve().parent]
_spec = importlib.machinery.PathFinder.find_spec("sitecustomize", _others)
if _spec is not None and _spec.loader is not None:
    _module = importlib.util.module_from_spec(_spec)
    sys.modules["sitecustomize"] = _module
    _spec.loader.exec_module(_module)
