"""Requests for kernels that have stored cases."""

from __future__ import annotations

from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from gpuemu_lsp.engine.jobs.requests.targets import TargetError, collect, files_naming
from gpuemu_lsp.engine.recordings.project_files import sources_of
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest


def request_of(root: Path, kernel: str, options: CheckOptions) -> CheckRequest | None:
    """Return the request for a kernel of a project, a registered one before others; None if it has none."""
    registered = tuple[CheckRequest, ...]()
    with suppress(TargetError):
        # Only its own file is read.
        registered = collect([kernel], options, root).requests
    requests = [request for request in registered if request.spec.name == kernel]
    return next(iter(requests or requests_of(root, {kernel}, options)), None)


def requests_of(root: Path, kernels: Collection[str], options: CheckOptions) -> tuple[CheckRequest, ...]:
    """Return the requests for kernels of a project; those that it no longer has are missing."""
    # A project's own checks are of the files that it registers; others were checked by their names.
    sources = dict.fromkeys([*sources_of(root, kernels), *files_naming(root, kernels)])
    requests = collect([*sources, str(root)], options, root).requests
    return tuple(request for request in requests if request.spec.name in kernels)
