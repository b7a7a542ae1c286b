"""From a stored failure back to the case it was, where the kernel still allows it."""

from __future__ import annotations

from dataclasses import replace

from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.store.model import Failure


def restored(failure: Failure, rebuilt: Case) -> Case | None:
    """Return ``rebuilt`` with the stored values in place of the drawn ones.

    Parameters
    ----------
    failure : Failure
        What the store gave.
    rebuilt : Case
        The case that ``failure.key`` builds from the kernel's plan today.

    Returns
    -------
    Case or None
        None when an input is gone or has another shape or dtype: the signature has changed, and the stored values mean
        nothing any more.
    """
    for name, tensor in failure.tensors.items():
        present = rebuilt.tensors.get(name)
        if present is None or present.shape != tensor.shape or present.dtype != tensor.dtype:
            return None
    return replace(rebuilt, tensors={**rebuilt.tensors, **failure.tensors})
