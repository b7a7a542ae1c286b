"""Preparation of a CUDA kernel: its file is compiled for each architecture, its plans resolved, its code linted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from gpuemu_lsp.engine.compile.compiler import CompileSession
from gpuemu_lsp.engine.compile.model import Artifact, CompileResult, ResourceUsage
from gpuemu_lsp.engine.compile.toolchain import ToolchainError
from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.lint import lint, unassigned_locals
from gpuemu_lsp.engine.plan.entry import choose_kernel
from gpuemu_lsp.engine.plan.model import PlanResult
from gpuemu_lsp.engine.plan.resolve import resolve
from gpuemu_lsp.engine.plan.struct_sizes import with_compiled_sizes
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source import device_views, of_kernels
from gpuemu_lsp.engine.source.model import SourceFile
from gpuemu_lsp.engine.subjects.cuda.missing_headers import left_out
from gpuemu_lsp.engine.subjects.cuda.newer_architecture import or_newer
from gpuemu_lsp.engine.subjects.cuda.program import ProgramCompilation
from gpuemu_lsp.engine.subjects.cuda.recorded_launches import with_recorded_instances, with_recorded_plans
from gpuemu_lsp.engine.subjects.cuda.session import reading, session_of
from gpuemu_lsp.engine.subjects.language import PreparedKernel, SourceRequest
from gpuemu_lsp.engine.subjects.one_code_kernel import OneCodeKernel, facts_of
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.subjects.unregistered import softened, without_guessed_instance


def prepare_cuda(kernel: SourceRequest) -> PreparedKernel:
    """Prepare a CUDA kernel. What its file's other kernels need too is kept for the batch of the request."""
    request, spec, text, place = kernel.request, kernel.spec, kernel.text, kernel.place
    session = session_of(request)
    source, views = session.source(request, text), session.views(request, text)
    result = session.resolved(request, text)
    headers = {**request.overlay, **views.headers}
    if any(finding.rule == "compile/missing-entry" for finding in result.findings):
        # A kernel whose declaration is half written is not found. Its syntax errors say why, and then a hint that an
        # unregistered kernel is missing adds nothing.
        errors = _errors_without_entry(ProgramCompilation(spec, source, views, headers, (), session.compile, ()))
        hints = () if errors else tuple(map(softened, result.findings))
        return PreparedKernel((*errors, *(result.findings if request.registered else hints)), place, source)
    declaration, _ = choose_kernel(spec, source)
    if request.alone and declaration is not None:
        views = of_kernels(views, {declaration.name})
        headers = {**request.overlay, **views.headers}
    compilation = ProgramCompilation(spec, source, views, headers, result.entries, session.compile, request.program)
    compiled = _compile_architectures(request, compilation, result, place)
    artifact = compiled.artifacts[0] if compiled.artifacts else None
    findings = (*filter(partial(_is_relevant, artifact is not None), compiled.result.findings), *compiled.findings)
    prepared = PreparedKernel(
        findings=findings,
        place=place,
        source=source,
        plans=tuple(plan for plan in compiled.result.plans if artifact is None or plan.entry in artifact.entries),
        artifacts=tuple(compiled.artifacts),
        resources=compiled.resources,
        headers=headers,
        compile_ms=compiled.milliseconds,
        overlay=request.overlay,
    )
    if artifact is None:
        return prepared
    findings = (*findings, *left_out(views, spec.include_dirs, request.registered))
    if declaration is not None:
        unoptimized = partial(compilation.run, artifact.arch, optimize=False)
        findings = (*findings, *unassigned_locals(source, declaration, findings, unoptimized))
    return replace(
        prepared,
        findings=findings,
        subject=OneCodeKernel(artifact, prepared.source_map),
        unoptimized=partial(_without_optimization, request, source, headers, artifact),
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
        if compiled.artifact is None and not request.registered and len(done.result.entries) > 1:
            compiled = _compiled_instances(compilation, arch, compiled, place)
        if compiled.artifact is None and done.result.guessed and not request.registered:
            compiled = without_guessed_instance(compiled, done.result.entries[0])
        done.findings += compiled.findings if request.registered else map(softened, compiled.findings)
        if compiled.artifact is None:
            break
        # The PTX shows what the source alone does not, such as the types behind typedefs in the signature.
        if not done.artifacts:
            entries = compiled.artifact.entries
            facts = partial(facts_of, compiled.artifact.ptx)
            resolved = with_recorded_instances(request, source, resolve(spec, source, entries, facts))
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


def _compiled_instances(
    compilation: ProgramCompilation, arch: str, compiled: CompileResult, place: Place
) -> CompileResult:
    """Compile those of several instances that compile; return the failed compilation of all if none does.

    Of an unregistered kernel they are read from the program, and a macro that the build defines may decide
    which of them it has.
    """
    alone = {entry: replace(compilation, entries=(entry,), program=()).run(arch) for entry in compilation.entries}
    entries = tuple(entry for entry, result in alone.items() if result.artifact is not None)
    if not entries:
        return compiled
    first = next(result for result in alone.values() if result.artifact is None)
    error = next((finding for finding in first.findings if finding.rule == "compile/error"), None)
    others = ", ".join(f"'{entry}'" for entry in compilation.entries if entry not in entries)
    reason = f": {error.message}" if error is not None else ""
    message = f"Not checked as {others}, which does not compile here{reason}."
    hint = make("config/launch-inferred", message, place, kernel=compilation.spec.name)
    checked = replace(compilation, entries=entries, program=()).run(arch)
    return replace(checked, findings=(*checked.findings, hint))


def _without_optimization(
    request: CheckRequest, source: SourceFile, headers: Mapping[str, str], artifact: Artifact
) -> CompileResult:
    """Compile what was prepared again, without optimisation.

    Raises
    ------
    ToolchainError
        If the compiler is no longer available.
    """
    views = device_views(*reading(request, source.text))
    entries = tuple(artifact.entries)
    compilation = ProgramCompilation(request.spec, source, views, headers, entries, CompileSession(), request.program)
    return compilation.run(artifact.arch, optimize=False)


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
