"""Preparation of a check: reads the source, resolves the plans, compiles and lints the artifacts."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from gpuemu_lsp.engine.check.policies.unknown_suppressions import unknown_suppressions
from gpuemu_lsp.engine.compile.compiler import CompileSession
from gpuemu_lsp.engine.compile.model import Artifact, CompileResult, ResourceUsage, Specialisation
from gpuemu_lsp.engine.compile.toolchain import ToolchainError
from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.lint import lint, unassigned_locals
from gpuemu_lsp.engine.plan.entry import choose_kernel
from gpuemu_lsp.engine.plan.model import Plan, PlanResult
from gpuemu_lsp.engine.plan.resolve import resolve
from gpuemu_lsp.engine.plan.struct_sizes import with_compiled_sizes
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source import device_views
from gpuemu_lsp.engine.source.ignore_comments import IgnoreComments
from gpuemu_lsp.engine.source.model import SourceFile
from gpuemu_lsp.engine.subjects.ahead import PlansAhead, TranslatePlan
from gpuemu_lsp.engine.subjects.cuda.kernel import CudaKernel
from gpuemu_lsp.engine.subjects.cuda.missing_headers import left_out
from gpuemu_lsp.engine.subjects.cuda.newer_architecture import or_newer
from gpuemu_lsp.engine.subjects.cuda.program import ProgramCompilation
from gpuemu_lsp.engine.subjects.cuda.recorded_launches import with_recorded_instances, with_recorded_plans
from gpuemu_lsp.engine.subjects.cuda.session import FileSession, reading
from gpuemu_lsp.engine.subjects.languages import PYPTX, TRITON, language_of_text
from gpuemu_lsp.engine.subjects.model import Subject
from gpuemu_lsp.engine.subjects.ops.preparation import prepare_op
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.subjects.source_map import SourceMap
from gpuemu_lsp.engine.subjects.unregistered import claim_before_run, softened, without_guessed_instance

if TYPE_CHECKING:
    from gpuemu_lsp.engine.emulator.analysis.kernel_facts import KernelFacts
    from gpuemu_lsp.engine.subjects.triton.preparation import PendingLint


class Closeable(Protocol):
    """A process, or several."""

    def close(self) -> None:
        """End it."""
        ...


@dataclass(frozen=True, slots=True)
class PendingFindings:
    """Findings on compiled code that are not known yet; ``complete`` makes findings of lint those of the check."""

    lint: PendingLint
    complete: Callable[[Iterable[Finding]], tuple[Finding, ...]]

    def finish(self, prepared: PreparedKernel) -> tuple[PreparedKernel, tuple[Finding, ...]]:
        """Return the kernel with the resource usage of its artifacts, and the findings."""
        artifacts, found = self.lint.finish()
        usage = _resources(artifacts)
        completed = replace(prepared, artifact=artifacts[0], artifacts=artifacts, resources=usage, pending=None)
        return completed, self.complete(found)


@dataclass(frozen=True, slots=True)
class PreparedKernel:
    """Everything that is known of a kernel before it runs.

    ``artifacts`` has one compilation per requested architecture, in that order; ``artifact`` is the first of them, the
    one to execute. ``headers`` has the device views of included files by path. ``ignores`` applies the ignore comments
    of the source. ``overlay`` has the unsaved texts of headers. ``subject`` gives cases their code, if the kernel
    compiles.
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
    overlay: Mapping[str, str] = field(default_factory=dict)
    subject: Subject | None = None
    specialisation: Specialisation | None = None
    pending: PendingFindings | None = None
    ahead: PlansAhead | None = None
    processes: tuple[Closeable, ...] = ()
    """Processes that work for this check, to be closed at its end."""

    def source_map(self, module: Module, plan: Plan) -> SourceMap:
        """Return the source map of a module that was compiled from this kernel's file."""
        source = self.source
        assert source is not None

        @cache
        def text_of(path: str) -> str | None:
            if path == source.path:
                return source.text
            return self.overlay.get(path) or _header(path) if path in self.headers else None

        return SourceMap(module.files, text_of, plan.place, python=False)


def prepare(
    request: CheckRequest, session: FileSession | None = None, ahead: TranslatePlan | None = None
) -> PreparedKernel:
    """Read, resolve, compile and lint one kernel.

    ``ahead`` translates the code of a plan in another process. With it, findings may be pending, and processes must be
    closed.
    """
    session = session or FileSession()
    spec = request.spec
    place = spec.places.get("source") or spec.places.get("") or Place(spec.source, Range.of(0, 0, 0, 1))
    text = request.text
    if text is None:
        try:
            text = Path(spec.source).read_bytes().decode("utf-8-sig")
        except (OSError, UnicodeDecodeError) as error:
            message = f"{Path(spec.source).name} cannot be read as UTF-8 text: {error}"
            return PreparedKernel((make("config/missing-file", message, place, kernel=spec.name),), place)
    if spec.op is not None:
        op = prepare_op(spec, text, options.case_seconds if (options := request.options).execute else None)
        return PreparedKernel(
            op.findings, op.place, None, op.plans, op.artifact, artifacts=op.artifacts, subject=op.subject
        )
    language = language_of_text(spec, text)
    if language == TRITON:
        return _prepared_triton(request, text, place, ahead)
    if language == PYPTX:
        return _prepared_pyptx(request, text, place)
    source, views = session.source(request, text), session.views(request, text)
    result = session.resolved(request, text)
    headers = {**request.overlay, **views.headers}
    if any(finding.rule == "compile/missing-entry" for finding in result.findings):
        # A kernel whose declaration is half written is not found. Its syntax errors say why, and then a hint that an
        # unregistered kernel is missing adds nothing.
        errors = _errors_without_entry(ProgramCompilation(spec, source, views, headers, (), session.compile, ()))
        hints = () if errors else tuple(map(softened, result.findings))
        return PreparedKernel((*errors, *(result.findings if request.registered else hints)), place, source)
    compilation = ProgramCompilation(spec, source, views, headers, result.entries, session.compile, request.program)
    compiled = _compile_architectures(request, compilation, result, place)
    artifact = compiled.artifacts[0] if compiled.artifacts else None
    ignores = IgnoreComments(lambda path: text if path == spec.source else request.overlay.get(path) or _header(path))
    findings = (*filter(partial(_is_relevant, artifact is not None), compiled.result.findings), *compiled.findings)
    if artifact is not None:
        findings = (*findings, *left_out(views, spec.include_dirs, request.registered))
        declaration, _ = choose_kernel(spec, source)
        if declaration is not None:
            unoptimized = partial(compilation.run, artifact.arch, optimize=False)
            findings = (*findings, *unassigned_locals(source, declaration, findings, unoptimized))
    prepared = PreparedKernel(
        findings=(*unknown_suppressions(spec.source, text), *map(ignores.apply, findings)),
        place=place,
        source=source,
        plans=tuple(plan for plan in compiled.result.plans if artifact is None or plan.entry in artifact.entries),
        artifact=artifact,
        resources=compiled.resources,
        headers=headers,
        compile_ms=compiled.milliseconds,
        artifacts=tuple(compiled.artifacts),
        ignores=ignores,
        overlay=request.overlay,
    )
    return prepared if artifact is None else replace(prepared, subject=CudaKernel(artifact, prepared.source_map))


def _prepared_triton(request: CheckRequest, text: str, place: Place, ahead: TranslatePlan | None) -> PreparedKernel:
    """Prepare a Triton kernel, which is compiled for each case; ``artifact`` is that of the first one."""
    from gpuemu_lsp.engine.subjects.triton.preparation import TritonRequest, prepare_triton

    spec, options = request.spec, request.options
    arch = (options.arch,) if options.arch else spec.arch
    started = time.perf_counter()
    prepared = prepare_triton(
        TritonRequest(
            spec,
            text,
            arch,
            options.seed,
            options.translate_seconds,
            options.execute,
            options.specialisations == "general",
            ahead,
        )
    )
    ignores = IgnoreComments(lambda path: text if path == spec.source else _header(path))

    def completed(findings: Iterable[Finding]) -> tuple[Finding, ...]:
        claimed = findings if request.registered else (claim_before_run(one, text) for one in findings)
        return tuple(map(ignores.apply, claimed))

    pending = (
        PendingFindings(prepared.pending, completed) if prepared.pending is not None and prepared.artifacts else None
    )
    variants = None if prepared.subject is None else prepared.subject.variants_ahead
    kernel = PreparedKernel(
        findings=(*unknown_suppressions(spec.source, text), *completed(prepared.findings)),
        place=place,
        source=prepared.source,
        plans=prepared.plans,
        artifact=prepared.artifacts[0] if prepared.artifacts else None,
        compile_ms=(time.perf_counter() - started) * 1e3,
        artifacts=prepared.artifacts,
        ignores=ignores,
        overlay=request.overlay,
        subject=prepared.subject,
        specialisation=prepared.specialisation,
        pending=pending,
        ahead=prepared.ahead,
        processes=tuple(one for one in (prepared.ahead, variants, prepared.pending) if one is not None),
    )
    if ahead is not None or pending is None:
        return kernel
    kernel, found = pending.finish(kernel)
    return replace(kernel, findings=(*kernel.findings, *found))


def _prepared_pyptx(request: CheckRequest, text: str, place: Place) -> PreparedKernel:
    """Prepare a pyptx kernel, which is traced for each case; ``artifact`` is that of the first one."""
    from gpuemu_lsp.engine.subjects.pyptx.preparation import PyptxRequest, prepare_pyptx

    spec, options = request.spec, request.options
    started = time.perf_counter()
    prepared = prepare_pyptx(
        PyptxRequest(spec, text, options.arch or spec.arch[0], options.seed, options.translate_seconds, options.execute)
    )
    ignores = IgnoreComments(lambda path: text if path == spec.source else _header(path))
    # Types and sizes are those of the kernel and of a call in its file: its errors are the program's.
    claimed = prepared.findings if request.registered else map(softened, prepared.findings)
    return PreparedKernel(
        findings=(*unknown_suppressions(spec.source, text), *map(ignores.apply, claimed)),
        place=place,
        source=prepared.source,
        plans=prepared.plans,
        artifact=prepared.artifact,
        resources=_resources(prepared.artifacts),
        compile_ms=(time.perf_counter() - started) * 1e3,
        artifacts=prepared.artifacts,
        ignores=ignores,
        overlay=request.overlay,
        subject=prepared.subject,
    )


@dataclass(slots=True)
class _CompiledArchitectures:
    """Compilations of a kernel for all its architectures; ``result`` is its resolution with the PTX known."""

    result: PlanResult
    findings: list[Finding] = field(default_factory=list)
    artifacts: list[Artifact] = field(default_factory=list)
    resources: dict[str, ResourceUsage] = field(default_factory=dict)
    milliseconds: float = 0.0


def _compile_architectures(
    request: CheckRequest, compilation: ProgramCompilation, result: PlanResult, place: Place
) -> _CompiledArchitectures:
    """Compile and lint for each architecture, up to the first that fails: the others would fail alike."""
    spec, source = compilation.spec, compilation.source
    done = _CompiledArchitectures(result)
    for arch in [request.options.arch] if request.options.arch else spec.arch:
        try:
            compiled = compilation.run(arch)
        except ToolchainError as error:
            message = f"'{spec.name}' was not compiled: {error}"
            done.findings.append(make("engine/not-executed", message, place, kernel=spec.name))
            break
        done.milliseconds += compiled.milliseconds
        if compiled.artifact is None and request.options.arch is None:
            compiled = or_newer(compiled, request.registered, compilation.run)
        if compiled.artifact is None and done.result.guessed and not request.registered:
            compiled = without_guessed_instance(compiled, done.result.entries[0])
        done.findings += compiled.findings if request.registered else map(softened, compiled.findings)
        if compiled.artifact is None:
            break
        # The PTX shows what the source alone does not, such as the types behind typedefs in the signature.
        if not done.artifacts:
            entries = compiled.artifact.entries
            facts_of = partial(_facts_of, compiled.artifact.ptx)
            resolved = with_recorded_instances(request, source, resolve(spec, source, entries, facts_of))
            sized = with_compiled_sizes(resolved, compiled.artifact.ptx, entries)
            done.result = with_recorded_plans(request, source, sized, entries)
        done.artifacts.append(compiled.artifact)
        for expression in done.result.entries:
            entry = compiled.artifact.entries.get(expression)
            if entry is not None:
                done.findings += lint(compiled.artifact, entry, spec, source)
                if entry in compiled.artifact.resources:
                    done.resources.setdefault(compiled.artifact.arch, compiled.artifact.resources[entry])
    return done


def _facts_of(ptx: str, mangled: str) -> KernelFacts | None:
    # Delayed, as all of the emulator: see `case_runner`.
    from gpuemu_lsp.engine.emulator.analysis.kernel_facts import kernel_facts
    from gpuemu_lsp.engine.emulator.analysis.kernel_graph import MalformedKernelError

    try:
        return kernel_facts(ptx, mangled)
    except MalformedKernelError:
        return None


def without_optimization(request: CheckRequest, prepared: PreparedKernel) -> CompileResult:
    """Compile what :func:`prepare` has compiled again without optimisation.

    Raises
    ------
    ToolchainError
        If the compiler is no longer available.
    """
    artifact, source = prepared.artifact, prepared.source
    assert artifact is not None and source is not None
    spec = request.spec
    views = device_views(*reading(request, source.text))
    entries = tuple(artifact.entries)
    compilation = ProgramCompilation(spec, source, views, prepared.headers, entries, CompileSession(), request.program)
    return compilation.run(artifact.arch, optimize=False)


def _resources(artifacts: Iterable[Artifact]) -> dict[str, ResourceUsage]:
    """Return the resource usage of a kernel by architecture, as far as it is known."""
    return {one.arch: next(iter(one.resources.values())) for one in artifacts if one.resources}


def _is_relevant(compiled: bool, finding: Finding) -> bool:
    """Return whether a finding is relevant: why a kernel cannot be run is not, if it does not compile."""
    return compiled or finding.rule != "engine/not-executed"


def _errors_without_entry(compilation: ProgramCompilation) -> tuple[Finding, ...]:
    """Return the compile errors of a file in which the kernel is not found."""
    try:
        compiled = compilation.run(compilation.spec.arch[0])
    except ToolchainError:
        return ()
    return () if compiled.artifact is not None else compiled.findings


def _header(path: str) -> str | None:
    try:
        return Path(path).read_text(encoding="utf-8-sig", errors="replace")
    except OSError:
        return None
