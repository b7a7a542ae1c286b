"""Arrays in files of a temporary folder: the part of a message between a program and a worker that is not JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np

from gpuemu.verifier.values import Array
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype


def saved(folder: Path, prefix: str, arrays: Mapping[str, Array]) -> dict[str, Json]:
    """Write arrays as raw bytes, and return what :func:`loaded` needs, by name."""
    found: dict[str, Json] = {}
    for number, (name, array) in enumerate(arrays.items()):
        path = folder / f"{prefix}{number}.bin"
        np.ascontiguousarray(array).reshape(-1).view(np.uint8).tofile(path)
        found[name] = {"file": str(path), "dtype": array.dtype.name, "shape": list(array.shape)}
    return found


def loaded(described: Json) -> dict[str, Array]:
    """Return the arrays that :func:`saved` wrote, contiguous."""
    assert isinstance(described, dict)
    found = {}
    for name, one in described.items():
        assert isinstance(one, dict) and isinstance(one["shape"], list)
        shape = tuple(int(str(extent)) for extent in one["shape"])
        data = np.fromfile(Path(str(one["file"])), np.uint8)
        found[name] = data.view(numpy_dtype(str(one["dtype"]))).reshape(shape)
    return found
