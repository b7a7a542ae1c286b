"""Evaluations for programs that use the package ``gpuemu``: references and ops of gpuemu.toml, which are user code."""

from __future__ import annotations

import os
from collections.abc import Iterator
from importlib import import_module

from gpuemu_lsp.engine.findings import Json


def evaluate(payload: Json) -> Iterator[Json]:
    """Run a function of ``gpuemu.ops.evaluations`` in the folder of the program that asks for it.

    ``payload`` has its ``function`` and the ``folder`` from which relative paths of the reference are opened.
    """
    assert isinstance(payload, dict)
    os.chdir(str(payload["folder"]))
    # By name: the package of users is a front end, which the engine does not depend on.
    module = import_module("gpuemu.ops.evaluations")
    yield from module.FUNCTIONS[str(payload["function"])](payload)
