"""Script: trace a kernel of pyptx's examples, and print its PTX and what a launch needs as JSON.

pyptx imports JAX and PyTorch for launches only. They are replaced by placeholders here, in a process of its own.
"""

from __future__ import annotations

import importlib
import json
import sys
from unittest.mock import MagicMock


def described(tile) -> dict:
    """Return what a tensor's tensor map is made from."""
    box = list(tile.tma_box) if tile.tma_box else None
    return {"layout": tile.layout.name, "box": box, "rank": tile.tma_rank, "padding": tile.tma_padding}


def main(module: str, name: str, arguments: list[int], keywords: dict[str, int]) -> None:
    """Trace ``name`` of an example module: a function that builds the kernel, or the kernel itself, with arguments."""
    for absent in ("jax", "jax.numpy", "torch"):
        sys.modules[absent] = MagicMock()
    found = getattr(importlib.import_module(f"pyptx.examples.{module}"), name)
    kernel, sizes = (found, keywords) if hasattr(found, "ptx") else (found(*arguments, **keywords), {})
    ptx = kernel.ptx(**sizes)
    (maps,) = kernel._tma_names_by_module_id.values()
    parameters = kernel._positional_names
    json.dump(
        {
            "ptx": ptx,
            "entry": kernel._fn.__name__,
            "grid": kernel._grid,
            "block": kernel._block,
            "cluster": kernel._cluster,
            "shared": max(kernel._smem, kernel._last_trace_smem),
            "tensors": dict(zip(parameters, map(described, kernel._in_specs + kernel._out_specs), strict=True)),
            "scalars": [name for _, name in kernel._raw_params or ()],
            "maps": maps,
        },
        sys.stdout,
    )


if __name__ == "__main__":
    main(*json.loads(sys.argv[1]))
