"""The program that a file is compiled as: its kernels together, and a header as a part of a file that includes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, islice

from gpuemu_lsp.engine.compile.compiler import CompileSession, compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest, CompileResult
from gpuemu_lsp.engine.compile.toolchain import ToolchainError
from gpuemu_lsp.engine.findings import Finding, Place, Range, Related, Severity
from gpuemu_lsp.engine.hostcode.cpp.launch_sites import sites_in_includers
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.regular_file import file_text
from gpuemu_lsp.engine.source import DeviceViews, device_views, includers, without_rejected
from gpuemu_lsp.engine.source.model import SourceFile
from gpuemu_lsp.engine.subjects.cuda.missing_headers import without_cascades
from gpuemu_lsp.engine.subjects.cuda.session import FileSession
from gpuemu_lsp.engine.subjects.request import CheckRequest

_MAX_INCLUDERS = 3
"""Including files that a header is compiled as a part of, at most."""
_MAX_REJECTIONS = 6
"""Attempts to compile a file without the code that has errors: each shows the errors behind those of the last one."""


def program_of(requests: Sequence[CheckRequest], session: FileSession) -> tuple[str, ...]:
    """Return the name expressions of all kernels of a file that compile together.

    The requests have a text and the same compile options. An instance with guessed template arguments may not compile;
    if the program fails, it is made of the others.
    """
    resolved = []
    for request in requests:
        assert request.text is not None
        resolved.append(session.resolved(request, request.text))
    entries = tuple(dict.fromkeys(entry for result in resolved for entry in result.entries))
    certain = tuple(dict.fromkeys(entry for result in resolved if not result.guessed for entry in result.entries))
    if len(certain) == len(entries):
        return entries
    request = requests[0]
    assert request.text is not None
    views, arch = session.views(request, request.text), request.options.arch or request.spec.arch[0]
    source, headers = session.source(request, request.text), {**request.overlay, **views.headers}
    try:
        compiled = ProgramCompilation(request.spec, source, views, headers, entries, session.compile, entries).run(arch)
    except ToolchainError:
        return certain
    return certain if compiled.artifact is None else entries


@dataclass(frozen=True, slots=True)
class ProgramCompilation:
    """A source file and the entry points to compile it for; ``program`` are those of all its kernels."""

    spec: KernelSpec
    source: SourceFile
    views: DeviceViews
    headers: Mapping[str, str]
    entries: tuple[str, ...]
    session: CompileSession
    program: tuple[str, ...]

    def run(self, arch: str, *, optimize: bool = True) -> CompileResult:
        """Compile the file; a header that does not compile alone as part of a file that includes it."""
        source, include_dirs = self.source, self.spec.include_dirs
        request = self._request(arch, optimize)
        compiled = _compiled(request, self.views, self.session)
        if compiled.artifact is not None:
            return compiled
        launches = sites_in_includers(source.path, (kernel.name for kernel in source.kernels), include_dirs)
        launched = (site.path for site in launches if site.path is not None)
        around = chain(launched, includers(source.path, include_dirs))
        attempts = []
        for includer in islice(dict.fromkeys(around), _MAX_INCLUDERS):
            text = self.headers.get(includer) or file_text(includer, errors="replace")
            views = device_views(includer, text, include_dirs, {source.path: source.text}, self.spec.compile_options)
            included = replace(request, path=includer, text=views.view, headers=views.headers)
            whole = _compiled(included, views, self.session)
            if whole.artifact is not None:
                return whole
            attempts.append(whole)
        # The attempt with the fewest errors has the most of what the file needs: its errors are the true ones.
        return min((*attempts, compiled), key=_errors)

    def _request(self, arch: str, optimize: bool) -> CompileRequest:
        return CompileRequest(
            path=self.source.path,
            text=self.views.view,
            arch=arch,
            expressions=self.entries,
            program=self.program,
            options=self.spec.compile_options,
            include_dirs=self.spec.include_dirs,
            headers=self.headers,
            origin=self.spec.places.get("entry"),
            options_place=self.spec.places.get("compile_options"),
            optimize=optimize,
        )


def _errors(compiled: CompileResult) -> int:
    return sum(finding.severity is Severity.ERROR for finding in compiled.findings)


def _compiled(request: CompileRequest, views: DeviceViews, session: CompileSession) -> CompileResult:
    """Compile, and remove the errors that are not the user's."""
    compiled = compile_source(request, session=session)
    if compiled.artifact is not None:
        return compiled
    compiled = _compiled_without_host_code(request, views, session, compiled)
    if compiled.artifact is not None:
        return compiled
    found = without_cascades(compiled.findings, views, request.include_dirs)
    return replace(compiled, findings=tuple(_about_file(finding, request.path) for finding in found))


def _compiled_without_host_code(
    request: CompileRequest, views: DeviceViews, session: CompileSession, compiled: CompileResult
) -> CompileResult:
    """Compile without the code that has errors, as far as it can be host code; return the result that says most.

    That is the one with the fewest errors, unless other code misses what was left out: then ``compiled``.

    Device code is found by names, so that a class of a host library stays if a kernel uses one of its names for
    something else. It may need headers that are missing or that NVRTC does not compile, and more of the standard
    library than NVRTC has. A host compiler reports the errors that are the user's.
    """
    texts = {file.path: file.text for file in views.files}
    rejected: dict[str, set[int]] = {}
    last = compiled
    for _ in range(_MAX_REJECTIONS):
        for place, _ in _compile_errors(last):
            if place.path in texts:
                rejected.setdefault(place.path, set()).add(texts[place.path].offset(place.range.start))
        reduced = without_rejected(views, rejected)
        before, request = request, replace(request, text=reduced.view, headers={**request.headers, **reduced.headers})
        if request == before:
            break
        last = compile_source(request, session=session)
        if last.artifact is not None:
            return last
    return last if _compile_errors(last) <= _compile_errors(compiled) else compiled


def _compile_errors(compiled: CompileResult) -> set[tuple[Place, str]]:
    return {(finding.place, finding.message) for finding in compiled.findings if finding.rule == "compile/error"}


def _about_file(finding: Finding, path: str) -> Finding:
    """Return a reason why nothing of a file runs with a place in this file, also if it is in one of its headers."""
    if finding.rule != "engine/not-executed" or path in (
        finding.place.path,
        *(one.place.path for one in finding.related),
    ):
        return finding
    here = Related(Place(path, Range.of(0, 0, 0, 0)), "compiled as a part of this file")
    return replace(finding, related=(*finding.related, here))
