"""Functions that other packages add to the engine, by name, in the metadata of an installed distribution.

The engine must not depend on the package ``gpuemu``, which is a front end of it. But a job of the engine replays calls
that ``gpuemu`` recorded, and an op may launch Triton kernels, for which ``gpuemu`` has the emulated device. Such
functions are entry points of the group ``gpuemu_lsp.extensions``, as pyproject.toml lists them.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import metadata
from typing import Any

GROUP = "gpuemu_lsp.extensions"


class MissingExtensionError(Exception):
    """No installed distribution has an entry point with the name."""


@cache
def extension(name: str) -> Callable[..., Any]:
    """Return the function with a name, and import its module.

    Raises
    ------
    MissingExtensionError
        If no installed distribution declares it, as where the metadata is older than the code.
    """
    for entry_point in metadata.entry_points(group=GROUP, name=name):
        function: Callable[..., Any] = entry_point.load()
        return function
    raise MissingExtensionError(
        f"no installed package declares the entry point '{name}' of the group {GROUP}: install gpuemu-lsp again"
    )
