"""What the checks of one file's kernels share: its source, its device views, and its compilation."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.compile.compiler import CompileSession
from gpuemu_lsp.engine.plan.model import PlanResult
from gpuemu_lsp.engine.plan.resolve import resolve
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.source import DeviceViews, device_views, read
from gpuemu_lsp.engine.source.model import SourceFile
from gpuemu_lsp.engine.subjects.cuda.recorded_launches import with_recorded_instances
from gpuemu_lsp.engine.subjects.request import CheckRequest


@dataclass(slots=True)
class FileSession:
    """What the checks of one file's kernels have in common. It is for one batch of checks: files are read once."""

    compile: CompileSession = field(default_factory=CompileSession)
    _sources: dict[tuple[object, ...], SourceFile] = field(default_factory=dict)
    _views: dict[tuple[object, ...], DeviceViews] = field(default_factory=dict)
    _resolved: dict[tuple[str, str | None], tuple[KernelSpec, SourceFile, PlanResult]] = field(default_factory=dict)

    def source(self, request: CheckRequest, text: str) -> SourceFile:
        """Return the parsed source of a request."""
        key = _file_key(request, text)
        if key not in self._sources:
            self._sources[key] = replace(read(*reading(request, text)), module=request.module)
        return self._sources[key]

    def views(self, request: CheckRequest, text: str) -> DeviceViews:
        """Return the device views of a request's source and its headers."""
        key = _file_key(request, text)
        if key not in self._views:
            self._views[key] = device_views(*reading(request, text))
        return self._views[key]

    def resolved(self, request: CheckRequest, text: str) -> PlanResult:
        """Return the resolution of a request's kernel as far as its source alone determines it."""
        spec, source = request.spec, self.source(request, text)
        key = spec.name, spec.entry
        known = self._resolved.get(key)
        # Entries of one name may differ in their sizes or arguments.
        if known is None or known[0] != spec or known[1] is not source:
            result = with_recorded_instances(request, source, resolve(spec, source))
            known = self._resolved[key] = spec, source, result
        return known[2]


def _file_key(request: CheckRequest, text: str) -> tuple[object, ...]:
    spec = request.spec
    return spec.source, text, spec.include_dirs, tuple(request.overlay.items()), spec.compile_options, request.module


def reading(request: CheckRequest, text: str) -> tuple[str, str, tuple[str, ...], Mapping[str, str], tuple[str, ...]]:
    """Return the arguments with which the source of a request is read."""
    spec = request.spec
    return spec.source, text, spec.include_dirs, request.overlay, spec.compile_options


_session: tuple[str, FileSession] | None = None


def session_of(request: CheckRequest) -> FileSession:
    """Return the session of the request's batch, which this process keeps until it gets a request of another one."""
    global _session
    if not request.batch:
        return FileSession()
    if _session is None or _session[0] != request.batch:
        _session = (request.batch, FileSession())
    return _session[1]
