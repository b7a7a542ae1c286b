"""Requests for kernels that have stored cases."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from gpuemu_lsp.engine.jobs.requests.targets import collect, files_naming
from gpuemu_lsp.engine.recordings.project_files import sources_of
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest


def requests_of(root: Path, kernels: Collection[str], options: CheckOptions) -> tuple[CheckRequest, ...]:
    """Return the requests for kernels of a project; those that it no longer has are missing."""
    # A project's own checks are of the files that it registers; others were checked by their names.
    sources = dict.fromkeys([*sources_of(root, kernels), *files_naming(root, kernels)])
    requests = collect([*sources, str(root)], options, root).requests
    return tuple(request for request in requests if request.spec.name in kernels)
