"""Jobs that use nothing of the engine, for tests of the pool."""

from __future__ import annotations

import runpy
from collections.abc import Iterator

from gpuemu_lsp.engine.findings import Json


def echo(payload: Json) -> Iterator[Json]:
    """Yield the payload."""
    yield payload


def script(payload: Json) -> Iterator[Json]:
    """Run a Python file and yield what its function ``job(argument)`` yields.

    ``payload`` has the keys ``path`` and ``argument``.
    """
    assert isinstance(payload, dict)
    namespace = runpy.run_path(str(payload["path"]))
    yield from namespace["job"](payload.get("argument"))
