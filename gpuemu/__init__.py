"""gpuemu in Python programs: kernels and operations are checked on a machine without a GPU.

The package is the Python interface of the engine in :mod:`gpuemu_lsp.engine`. Importing it imports neither NumPy nor a
framework; frameworks are imported only by the subpackage that needs them.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuemu.client import Client
    from gpuemu.results import FuzzResults, ValidationError, ValidationResult
    from gpuemu.validate import validate_op

_PLACES = {
    "Client": "client",
    "FuzzResults": "results",
    "ValidationError": "results",
    "ValidationResult": "results",
    "validate_op": "validate",
}

__all__ = ["Client", "FuzzResults", "ValidationError", "ValidationResult", "validate_op"]


def __getattr__(name: str) -> Any:
    """Import a public name at its first use (PEP 562)."""
    if name not in _PLACES:
        raise AttributeError(f"module 'gpuemu' has no attribute '{name}'")
    return getattr(import_module(f"gpuemu.{_PLACES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
