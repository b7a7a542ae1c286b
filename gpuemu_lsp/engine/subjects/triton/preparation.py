"""Preparation of a Triton kernel: its module is imported, its plans resolved, and the first case of each compiled.

The module is the user's code: nothing is imported where the workspace is not trusted. Triton itself is imported when it
is needed: it takes half a second.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.compile.model import Artifact, Specialisation
from gpuemu_lsp.engine.deadline import IMPORT_SECONDS, DeadlineError, deadline
from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.fuzz import cases as draw_cases
from gpuemu_lsp.engine.fuzz.model import PlanError
from gpuemu_lsp.engine.fuzz.variants import has_variants
from gpuemu_lsp.engine.lint import lint
from gpuemu_lsp.engine.plan.model import Plan, PlanResult, VariantLimit
from gpuemu_lsp.engine.plan.triton import choose_triton_kernel, entry_template, resolve_triton
from gpuemu_lsp.engine.plan.wrappers.inference import inferred_kernel
from gpuemu_lsp.engine.plan.wrappers.inferred_kernel import InferredKernel, MissingLaunch, launch_facts
from gpuemu_lsp.engine.plan.wrappers.layouts import with_layouts
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import SourceFile
from gpuemu_lsp.engine.source.python import read_python
from gpuemu_lsp.engine.source.python.model import PythonSource, TritonKernel
from gpuemu_lsp.engine.subjects.ahead import PlansAhead, Report, VariantsAhead, start_ahead
from gpuemu_lsp.engine.subjects.language import Closeable, PreparedKernel, SourceRequest
from gpuemu_lsp.engine.subjects.model import CaseCode, CodeError
from gpuemu_lsp.engine.subjects.source_map import statement_range
from gpuemu_lsp.engine.subjects.user_module import why_not_importable

if TYPE_CHECKING:
    from gpuemu_lsp.engine.subjects.triton.kernel import TritonKernelSubject
    from gpuemu_lsp.engine.subjects.triton.resources import ResourceReport

_MOST_VARIANTS = 2
"""Variants of the first dtype on a save, of small and of larger sizes; those of other dtypes have larger sizes only."""
_TRIED_CONFIGURATIONS = 4
"""Configurations of an autotuner that may be skipped on a save, because they need too much shared memory."""


_TESTS = "Run its tests with `pytest --gpuemu-triton`"


@dataclass(frozen=True, slots=True)
class _Lint:
    """Lint of the code of a kernel, for which ptxas still computes the resource usage."""

    spec: KernelSpec
    entry: str
    source: SourceFile
    reports: tuple[ResourceReport, ...]

    def finish(self) -> tuple[tuple[Artifact, ...], tuple[Finding, ...]]:
        """Return the artifacts with their resource usage, and the findings on them."""
        artifacts = tuple(report.wait() for report in self.reports)
        found = (lint(one, one.entries[self.entry], self.spec, self.source) for one in artifacts)
        return artifacts, tuple(chain.from_iterable(found))

    def close(self) -> None:
        """End ptxas if it still runs."""
        for report in self.reports:
            report.close()


def prepare_triton(request: SourceRequest) -> PreparedKernel:
    """Prepare a Triton kernel. Executes the user's module if the workspace is trusted."""
    started = time.perf_counter()
    spec = request.spec
    source = read_python(spec.source, request.text)
    kernel, findings = choose_triton_kernel(spec, source)
    if kernel is None:
        return request.stopped(*findings)
    name = Place(spec.source, kernel.name_range)
    reason = why_not_importable("triton", "Triton", request.options.execute, "compiling a Triton kernel")
    if reason is not None:
        return request.stopped(request.not_run(reason, name))
    inferred: InferredKernel | None = None
    if spec.args is None and "name" not in spec.places:
        launch = inferred_kernel(spec, request.text, [one.name for one in source.triton])
        if isinstance(launch, MissingLaunch):
            return request.stopped(_launch_missing(launch, source, kernel, spec))
        inferred = with_layouts(launch)
        spec = inferred.spec
        request = replace(request, request=replace(request.request, spec=spec))
    imported = _imported(request, kernel.name, name)
    if isinstance(imported, Finding):
        return request.stopped(imported)
    from gpuemu_lsp.engine.subjects.triton.resources import ResourceReport

    result, stated = resolve_triton(spec, source, kernel, imported.tuning()), list[Finding]()
    if inferred is not None:
        result = _with_launch(result, inferred)
        stated = [_assumed(inferred, source, name)] if result.plans else []
    plans, reports, found = list[Plan](), list[ResourceReport](), [*stated, *result.findings]
    variant: Specialisation | None = None
    candidates = [_plans_to_try(request, resolved, number) for number, resolved in enumerate(result.plans)]
    ahead = _plans_ahead(request, imported, candidates[1:])
    imported.variants_ahead = _variants_ahead(request, imported, candidates[:1])
    for number, (resolved, tried) in enumerate(zip(result.plans, candidates, strict=True)):
        subjects = [imported, *(replace(imported, arch=arch) for arch in request.arch[1:] if not plans)]
        if ahead is not None:
            ahead.wait_compiled(number)
        try:
            plan, codes = _first_codes(subjects, tried, request.options.seed)
        except CodeError as error:
            if imported.import_failure is not None:
                for process in _existing(ahead, imported.variants_ahead):
                    process.close()
                return request.stopped(replace(imported.import_failure, rule="engine/not-executed"))
            found += [one for one in error.findings if one not in found]
        except PlanError as error:
            place = next((spec.places[key] for key in ("launch.grid", "launch") if key in spec.places), name)
            found.append(make("config/bad-value", str(error), place, kernel=spec.name, dtype=resolved.dtype))
        else:
            if not plans:
                reports += [ResourceReport.start(code.artifact, code.representations["ptx"]) for code in codes]
                variant = imported.specialisation(codes[0])
            plans.append(plan)
            if ahead is not None:
                ahead.add(plan, number)
    file = request.function(kernel.name, kernel.name_range, kernel.range)
    pending = _Lint(spec, kernel.name, file, tuple(reports)) if reports else None
    return PreparedKernel(
        tuple(found),
        request.place,
        file,
        tuple(plans),
        tuple(report.artifact for report in reports),
        compile_ms=(time.perf_counter() - started) * 1e3,
        subject=imported,
        specialisation=variant,
        pending=pending,
        ahead=ahead,
        processes=_existing(ahead, imported.variants_ahead, pending),
    )


def _existing(*processes: Closeable | None) -> tuple[Closeable, ...]:
    """Return the processes that were started."""
    return tuple(process for process in processes if process is not None)


def _plans_to_try(request: SourceRequest, plan: Plan, number: int) -> tuple[Plan, ...]:
    """Return the plans of which the first that an autotuner would not skip is checked; ``number`` is from 0."""
    limited = _with_few_variants(plan, 1 if number else _MOST_VARIANTS) if _is_general(request) else ()
    return *limited, plan


def _plans_ahead(
    request: SourceRequest, subject: TritonKernelSubject, candidates: Sequence[Sequence[Plan]]
) -> PlansAhead | None:
    """Compile and translate the code of plans, from the second on, in another process; None if there is none for it."""
    translate = request.ahead
    if translate is None or not _is_general(request) or not candidates:
        return None

    def work(report: Report) -> None:
        for number, plans in enumerate(candidates, 1):
            chosen, _ = _first_codes([subject], plans, request.options.seed)
            report(PlansAhead.compiled(number))
            translate(subject, chosen, lambda case: True, lambda case: None)
            report(PlansAhead.translated(number))

    process = start_ahead(work, request.options.translate_seconds)
    return None if process is None else PlansAhead(process)


def _variants_ahead(
    request: SourceRequest, subject: TritonKernelSubject, candidates: Sequence[Sequence[Plan]]
) -> VariantsAhead | None:
    """Compile and translate the variants of the first plan but the first in another process, as far as they are likely.

    The first of the plans to try is assumed to be the one that is checked.
    """
    translate = request.ahead
    if translate is None or not _is_general(request) or not candidates or not has_variants(plan := candidates[0][0]):
        return None

    def work(report: Report) -> None:
        first = {subject.variant(plan, case) for case in draw_cases(plan, request.options.seed, 1)}
        others = replace(subject, left_out=frozenset(first))
        translate(
            others,
            plan,
            lambda case: others.variant(plan, case) not in first,
            lambda case: report(others.variant(plan, case)),
        )

    process = start_ahead(work, request.options.translate_seconds)
    return None if process is None else VariantsAhead(process, plan.dtype)


def _first_codes(
    subjects: Sequence[TritonKernelSubject], plans: Sequence[Plan], seed: int
) -> tuple[Plan, list[CaseCode]]:
    """Return the first of the plans that an autotuner would not skip, and its code for each architecture."""
    for plan in plans[:-1]:
        try:
            return plan, [subject.first(plan, seed) for subject in subjects]
        except CodeError as error:
            if error.findings:
                raise
    return plans[-1], [subject.first(plans[-1], seed) for subject in subjects]


def _with_few_variants(plan: Plan, most: int) -> tuple[Plan, ...]:
    """Return a plan whose drawn cases have few variants; of an autotuned kernel one for each configuration.

    Cases have the first of several ``num_warps`` and ``num_stages``. They and the configurations have no influence on
    what a kernel is to compute.
    """
    assert plan.triton is not None
    choices = {dim.name: dim.choices for dim in plan.dims if dim.choices}
    fixed = {name: choices[name][0] for name, _ in plan.triton.options if name in choices}
    configuration = plan.triton.configuration
    chosen = [fixed]
    if configuration is not None:
        chosen = [{**fixed, configuration: number} for number in choices[configuration][:_TRIED_CONFIGURATIONS]]
    limits = [VariantLimit(most, one) for one in chosen]
    return tuple(replace(plan, triton=replace(plan.triton, limit=limit)) for limit in limits)


def _with_launch(result: PlanResult, inferred: InferredKernel) -> PlanResult:
    """Return the plans of a launch in the program, with what it leaves open."""
    plans = (replace(plan, facts=launch_facts(inferred, plan)) for plan in result.plans)
    return replace(result, plans=tuple(plans))


def _assumed(inferred: InferredKernel, source: PythonSource, name: Place) -> Finding:
    """Return the hint that says which launch a check is about."""
    where = f"line {inferred.range.start.line + 1}" + (f" of {Path(inferred.file).name}" if inferred.file else "")
    unknown = f" The extents of {', '.join(sorted(inferred.uncertain))} are not known." if inferred.uncertain else ""
    message = (
        f"'{inferred.spec.name}' is checked as `{inferred.function}` launches it in {where}: "
        f"{'; '.join(inferred.notes)}.{unknown}"
    )
    return make("config/launch-inferred", message, name, kernel=inferred.spec.name)


def _launch_missing(launch: MissingLaunch, source: PythonSource, kernel: TritonKernel, spec: KernelSpec) -> Finding:
    if "TensorDescriptor" in launch.reason:
        # An entry of gpuemu.toml has pointers, from which kernels make descriptors themselves.
        message = f"'{spec.name}' was not run: it gets tensor descriptors that the program makes. {_TESTS}."
        return make("engine/not-executed", message, Place(source.path, kernel.name_range), kernel=spec.name)
    message = (
        f"'{spec.name}' was not run: the program does not determine {launch.reason}. {_TESTS}, "
        f"or add it to gpuemu.toml:\n{entry_template(kernel, source)}"
    )
    return make("engine/not-executed", message, Place(source.path, kernel.name_range), kernel=spec.name)


def _is_general(request: SourceRequest) -> bool:
    """Return whether cases share code that assumes nothing of integers, and have few variants."""
    return request.options.specialisations == "general"


def _imported(request: SourceRequest, entry: str, name: Place) -> TritonKernelSubject | Finding:
    """Return the kernel of the imported module, or the finding that says why it cannot be imported."""
    from gpuemu_lsp.engine.oracle.opened_files import recorded_files
    from gpuemu_lsp.engine.subjects.user_module import ModuleError, import_module, large_packages_excluded

    with large_packages_excluded():
        from gpuemu_lsp.engine.subjects.triton.kernel import TritonKernelSubject
        from gpuemu_lsp.engine.subjects.triton.target import use_target

        use_target(request.arch[0])
    spec, file = request.spec, Path(request.spec.source).name
    failed: Finding | None = None
    module = None
    seconds = max(request.options.translate_seconds, IMPORT_SECONDS)
    try:
        with deadline(seconds), recorded_files():
            # Of a file that is not written to be imported, such as a benchmark, only what the kernel needs is executed.
            module = import_module(spec.source, request.text, None if "name" in spec.places else entry)
    except ModuleError as error:
        module = error.module if "name" not in spec.places else None
        if error.missing is not None:
            where = Path(error.path).name
            why = f"{where} imports {error.missing}, which is not installed. Install it: pip install {error.missing}"
            failed = request.not_run(why, name)
        else:
            message, cause = f"{file} cannot be imported: {error.message}", Cause.NOT_IMPORTED
            failed = make("compile/error", message, name, kernel=spec.name, cause=cause)
        failed = _on_line(failed, request, error.path, error.line)
    except DeadlineError:
        failed = request.not_run(f"the import of {file} took longer than {seconds:g} s. {_TESTS}", name)
    # A script that ends with statements that fail, such as those that need a GPU, has defined its kernels before.
    if module is None:
        assert failed is not None
        return failed
    seconds = request.options.translate_seconds
    subject = TritonKernelSubject(
        module, spec.source, request.text, entry, spec.name, name, request.arch[0], seconds, _is_general(request)
    )
    if subject.kernel is None:
        why = f"{file} has no Triton kernel '{entry}' at its top level after its import"
        return failed if failed is not None else request.not_run(why, name)
    subject.import_failure = failed
    return subject


def _on_line(finding: Finding, request: SourceRequest, path: str, line: int | None) -> Finding:
    """Return the finding on a line of a file, where it is if there is none."""
    if line is None:
        return finding
    text = request.text_of(path)
    return (
        finding
        if text is None
        else replace(finding, place=Place(path, statement_range(text, line - 1, 0, python=True)))
    )
