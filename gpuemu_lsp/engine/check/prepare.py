"""From a request to something that can run: the source read, the plans resolved, artifacts compiled and linted."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, islice
from pathlib import Path

from gpuemu_lsp.engine.check.model import CheckRequest
from gpuemu_lsp.engine.check.policies.missing_headers import without_cascades
from gpuemu_lsp.engine.check.policies.newer_architecture import advised, compiled_for_newer
from gpuemu_lsp.engine.compile import ToolchainError, compile_source
from gpuemu_lsp.engine.compile.model import Artifact, CompileRequest, CompileResult, ResourceUsage
from gpuemu_lsp.engine.findings import Finding, Place, Range, Severity
from gpuemu_lsp.engine.lint import lint
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.plan.resolve import resolve
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source import DeviceViews, device_views, includers, read
from gpuemu_lsp.engine.source.ignore_comments import IgnoreComments
from gpuemu_lsp.engine.source.model import SourceFile

_MAX_INCLUDERS = 3
_OURS = frozenset({"engine/not-executed", "engine/unsupported-instruction", "compile/missing-header"})
"""What is said of a compilation that failed for want of a header or a feature, not for the code."""

_WHATEVER_THE_TYPES = re.compile(
    r'expected |identifier ".+" is undefined|(?:class|struct|namespace) ".+" has no member|unrecognized token|missing '
)
"""Errors that no other template argument would mend."""


@dataclass(frozen=True, slots=True)
class PreparedKernel:
    """What is known before anything runs. ``artifact`` is the one to execute: the first architecture's.

    ``artifacts`` are those of all architectures, in the order asked for.
    """

    findings: tuple[Finding, ...]
    place: Place
    source: SourceFile | None = None
    plans: tuple[Plan, ...] = ()
    artifact: Artifact | None = None
    resources: Mapping[str, ResourceUsage] = field(default_factory=dict)
    headers: Mapping[str, str] = field(default_factory=dict)
    compile_ms: float = 0.0
    artifacts: tuple[Artifact, ...] = ()
    ignores: IgnoreComments = field(default_factory=lambda: IgnoreComments(lambda _: None))


def prepare(request: CheckRequest) -> PreparedKernel:
    """Read, resolve, compile and lint one kernel. Runs nothing of the user's."""
    spec = request.spec
    place = spec.places.get("source") or spec.places.get("") or Place(spec.source, Range.of(0, 0, 0, 1))
    text = request.text
    if text is None:
        try:
            text = Path(spec.source).read_bytes().decode("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            message = f"{Path(spec.source).name} cannot be read as UTF-8 text: {error}"
            return PreparedKernel((make("config/missing-file", message, place, kernel=spec.name),), place)
    source = read(spec.source, text, spec.include_dirs, request.overlay)
    result = resolve(spec, source)
    views = device_views(spec.source, text, spec.include_dirs, request.overlay)
    headers = {**request.overlay, **views.headers}
    if any(finding.rule == "compile/missing-entry" for finding in result.findings):
        misspelt = _misspelt(spec, source, views, headers)
        softened = () if misspelt else tuple(map(_softened, result.findings))
        return PreparedKernel((*misspelt, *(result.findings if request.registered else softened)), place, source)
    findings: list[Finding] = []
    ignores = IgnoreComments(lambda path: text if path == spec.source else request.overlay.get(path) or _header(path))
    artifacts: list[Artifact] = []
    resources: dict[str, ResourceUsage] = {}
    milliseconds = 0.0
    for_arch = partial(_compile, spec, source, views, headers, entries=result.entries)
    for arch in [request.options.arch] if request.options.arch else spec.arch:
        try:
            compiled = for_arch(arch)
        except ToolchainError as error:
            message = f"'{spec.name}' was not compiled: {error}"
            findings.append(make("engine/not-executed", message, place, kernel=spec.name))
            break
        milliseconds += compiled.milliseconds
        if compiled.artifact is None and request.options.arch is None:
            compiled = _or_newer(compiled, request.registered, for_arch)
        if compiled.artifact is None and result.guessed and not request.registered:
            compiled = _without_guess(compiled, result.entries[0])
        findings += compiled.findings if request.registered else map(_softened, compiled.findings)
        if compiled.artifact is None:
            break
        if not artifacts:
            result = resolve(spec, source, compiled.artifact.entries)
        artifacts.append(compiled.artifact)
        for expression in result.entries:
            entry = compiled.artifact.entries.get(expression)
            if entry is not None:
                findings += lint(compiled.artifact, entry, spec, source)
                if entry in compiled.artifact.resources:
                    resources.setdefault(compiled.artifact.arch, compiled.artifact.resources[entry])
    return PreparedKernel(
        findings=tuple(
            map(ignores.apply, (*filter(partial(_still_said, bool(artifacts)), result.findings), *findings))
        ),
        place=place,
        source=source,
        plans=tuple(plan for plan in result.plans if not artifacts or plan.entry in artifacts[0].entries),
        artifact=artifacts[0] if artifacts else None,
        resources=resources,
        headers=headers,
        compile_ms=milliseconds,
        artifacts=tuple(artifacts),
        ignores=ignores,
    )


def without_optimization(request: CheckRequest, prepared: PreparedKernel) -> CompileResult:
    """Compile what :func:`prepare` has compiled once more, without optimisation.

    Raises
    ------
    ToolchainError
        If the compiler has gone.
    """
    artifact, source = prepared.artifact, prepared.source
    assert artifact is not None and source is not None
    spec = request.spec
    views = device_views(spec.source, source.text, spec.include_dirs, request.overlay)
    entries = tuple(artifact.entries)
    return _compile(spec, source, views, prepared.headers, artifact.arch, entries, optimize=False)


def _still_said(compiled: bool, finding: Finding) -> bool:
    """What cannot even be compiled need not be told why it was not run."""
    return compiled or finding.rule != "engine/not-executed" or finding.severity is not Severity.HINT


def _compile(
    spec: KernelSpec,
    source: SourceFile,
    views: DeviceViews,
    headers: Mapping[str, str],
    arch: str,
    entries: tuple[str, ...],
    *,
    optimize: bool = True,
) -> CompileResult:
    """Compile the file, and a header that does not compile alone as part of the file that includes it."""
    request = replace(_request(spec, source, headers, arch, entries), optimize=optimize)
    compiled = _compiled(request, views)
    if compiled.artifact is not None:
        return compiled
    launched = (launch.path for launch in source.launches if launch.path is not None)
    around = chain(launched, includers(source.path, spec.include_dirs))
    attempts = []
    for includer in islice(dict.fromkeys(around), _MAX_INCLUDERS):
        text = headers.get(includer) or Path(includer).read_text(encoding="utf-8", errors="replace")
        around_it = device_views(includer, text, spec.include_dirs, {source.path: source.text})
        whole = _compiled(replace(request, path=includer, text=around_it.view, headers=around_it.headers), around_it)
        if whole.artifact is not None:
            return whole
        attempts.append(whole)
    return min((*attempts, compiled), key=_errors)  # they, too, are truer where the file has what it needs


def _or_newer(failed: CompileResult, registered: bool, for_arch: Callable[[str], CompileResult]) -> CompileResult:
    """Compile what nobody registered for the architecture it is written for; what somebody did may name that one."""
    try:
        newer = compiled_for_newer(failed.findings, for_arch)
    except ToolchainError:  # an older toolkit that knows no newer ones
        return failed
    if newer is None or newer.artifact is None:
        return failed
    return advised(failed, newer.artifact.arch) if registered else newer


def _without_guess(compiled: CompileResult, entry: str) -> CompileResult:
    """Return the errors a template has whatever its types are; those of a guessed instance are a hint.

    NVRTC reads no template that is not instantiated, so what it says of the instance is all there is.
    """
    certain = tuple(finding for finding in compiled.findings if _WHATEVER_THE_TYPES.match(finding.message))
    if certain:
        return replace(compiled, findings=certain)
    first = next((finding for finding in compiled.findings if finding.rule == "compile/error"), None)
    if first is None:
        return compiled
    why = f"'{entry}', a guess at which instance is meant, does not compile: {first.message}"
    message = f"This kernel was not run: {why}. Name an instance in gpuemu.toml."
    told = make("engine/not-executed", message, first.place, kernel=first.kernel, severity=Severity.HINT)
    return replace(compiled, findings=(told,))


def _errors(compiled: CompileResult) -> int:
    return sum(finding.severity is Severity.ERROR for finding in compiled.findings)


def _misspelt(
    spec: KernelSpec, source: SourceFile, views: DeviceViews, headers: Mapping[str, str]
) -> tuple[Finding, ...]:
    """Return what the compiler has against a file without the kernel: one whose head is half written is not found."""
    try:
        compiled = _compile(spec, source, views, headers, spec.arch[0], ())
    except ToolchainError:
        return ()
    return () if compiled.artifact is not None else compiled.findings


def _compiled(request: CompileRequest, views: DeviceViews) -> CompileResult:
    """Compile, and let go of the errors that are not the user's."""
    compiled = compile_source(request)
    if compiled.artifact is not None:
        return compiled
    return replace(compiled, findings=tuple(without_cascades(compiled.findings, views, request.include_dirs)))


def _header(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None


def _softened(finding: Finding) -> Finding:
    """A kernel nobody asked for by name may be inside an ``#if`` that is off, or need more than NVRTC has."""
    if finding.rule in _OURS:
        return replace(finding, rule="engine/not-executed", severity=Severity.HINT)
    if finding.rule != "compile/missing-entry":
        return finding
    message = "This kernel is not part of the file as it is compiled: an #if leaves it out."
    return make("engine/not-executed", message, finding.place, kernel=finding.kernel, severity=Severity.HINT)


def _request(
    spec: KernelSpec, source: SourceFile, headers: Mapping[str, str], arch: str, entries: tuple[str, ...]
) -> CompileRequest:
    return CompileRequest(
        path=source.path,
        text=source.device_view,
        arch=arch,
        expressions=entries,
        options=spec.compile_options,
        include_dirs=spec.include_dirs,
        headers=headers,
        origin=spec.places.get("entry"),
        options_place=spec.places.get("compile_options"),
    )
