"""Preparation of a Triton kernel: its module is imported, its plans resolved, and the first case of each compiled.

The module is the user's code: nothing is imported where the workspace is not trusted. Triton itself is imported when it
is needed: it takes half a second.
"""

from __future__ import annotations

import importlib.util
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
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile
from gpuemu_lsp.engine.source.python import read_python
from gpuemu_lsp.engine.source.python.model import PythonSource, TritonKernel
from gpuemu_lsp.engine.subjects.ahead import PlansAhead, Report, TranslatePlan, VariantsAhead, start_ahead
from gpuemu_lsp.engine.subjects.model import CaseCode, CodeError
from gpuemu_lsp.engine.subjects.source_map import statement_range

if TYPE_CHECKING:
    from gpuemu_lsp.engine.subjects.triton.kernel import TritonKernelSubject
    from gpuemu_lsp.engine.subjects.triton.resources import ResourceReport

_MOST_VARIANTS = 2
"""Variants of the first dtype on a save, of small and of larger sizes; those of other dtypes have larger sizes only."""
_TRIED_CONFIGURATIONS = 4
"""Configurations of an autotuner that may be skipped on a save, because they need too much shared memory."""


_TESTS = "Run its tests with `pytest --gpuemu-triton`"


@dataclass(frozen=True, slots=True)
class TritonRequest:
    """A Triton kernel to prepare.

    ``text`` is that of its file, ``arch`` the architectures to compile for, the first of which runs, ``seed`` that of
    the first case. ``seconds`` limits the import of the module and each compilation. ``execute`` False imports nothing.
    ``general``: cases share code that assumes nothing of integers, and have few variants.
    """

    spec: KernelSpec
    text: str
    arch: tuple[str, ...]
    seed: int
    seconds: float
    execute: bool
    general: bool = False
    ahead: TranslatePlan | None = None
    """If ``general``, it is called in other processes: for the plans but the first, and the first's later variants."""


@dataclass(frozen=True, slots=True)
class PendingLint:
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


@dataclass(frozen=True, slots=True)
class TritonPreparation:
    """What is known of a Triton kernel before it runs.

    ``artifacts`` are the code of the first case of the first plan, one per architecture, and ``pending`` what is to be
    known of them later. ``subject`` is None if the kernel could not be imported. ``source`` has the kernel as a
    declaration. ``specialisation`` is that of the first artifact.
    """

    findings: tuple[Finding, ...]
    plans: tuple[Plan, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    subject: TritonKernelSubject | None = None
    source: SourceFile | None = None
    specialisation: Specialisation | None = None
    pending: PendingLint | None = None
    ahead: PlansAhead | None = None
    """The code of the plans but the first; that of the first plan's later variants is an attribute of ``subject``."""


def prepare_triton(request: TritonRequest) -> TritonPreparation:
    """Prepare a Triton kernel. Executes the user's module if the workspace is trusted."""
    spec = request.spec
    source = read_python(spec.source, request.text)
    kernel, findings = choose_triton_kernel(spec, source)
    if kernel is None:
        return TritonPreparation(findings)
    name = Place(spec.source, kernel.name_range)
    reason = _not_importable(request)
    if reason is not None:
        return TritonPreparation((_not_executed(spec, reason, name),))
    inferred: InferredKernel | None = None
    if spec.args is None and "name" not in spec.places:
        launch = inferred_kernel(spec, request.text, [one.name for one in source.triton])
        if isinstance(launch, MissingLaunch):
            return TritonPreparation((_launch_missing(launch, source, kernel, spec),))
        inferred, spec = launch, launch.spec
        request = replace(request, spec=spec)
    imported = _imported(request, kernel.name, name)
    if isinstance(imported, Finding):
        return TritonPreparation((imported,))
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
            plan, codes = _first_codes(subjects, tried, request.seed)
        except CodeError as error:
            if imported.import_failure is not None:
                for process in (ahead, imported.variants_ahead):
                    if process is not None:
                        process.close()
                return TritonPreparation((replace(imported.import_failure, rule="engine/not-executed"),))
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
    declared = KernelDecl(kernel.name, kernel.name, (), (), kernel.name_range, kernel.range, extern_c=True)
    file = SourceFile(spec.source, request.text, (declared,), (), (), {}, request.text)
    pending = PendingLint(spec, kernel.name, file, tuple(reports))
    artifacts = tuple(report.artifact for report in reports)
    return TritonPreparation(tuple(found), tuple(plans), artifacts, imported, file, variant, pending, ahead)


def _plans_to_try(request: TritonRequest, plan: Plan, number: int) -> tuple[Plan, ...]:
    """Return the plans of which the first that an autotuner would not skip is checked; ``number`` is from 0."""
    limited = _with_few_variants(plan, 1 if number else _MOST_VARIANTS) if request.general else ()
    return *limited, plan


def _plans_ahead(
    request: TritonRequest, subject: TritonKernelSubject, candidates: Sequence[Sequence[Plan]]
) -> PlansAhead | None:
    """Compile and translate the code of plans, from the second on, in another process; None if there is none for it."""
    translate = request.ahead
    if translate is None or not request.general or not candidates:
        return None

    def work(report: Report) -> None:
        for number, plans in enumerate(candidates, 1):
            chosen, _ = _first_codes([subject], plans, request.seed)
            report(PlansAhead.compiled(number))
            translate(subject, chosen, lambda case: True, lambda case: None)
            report(PlansAhead.translated(number))

    process = start_ahead(work, request.seconds)
    return None if process is None else PlansAhead(process)


def _variants_ahead(
    request: TritonRequest, subject: TritonKernelSubject, candidates: Sequence[Sequence[Plan]]
) -> VariantsAhead | None:
    """Compile and translate the variants of the first plan but the first in another process, as far as they are likely.

    The first of the plans to try is assumed to be the one that is checked.
    """
    translate = request.ahead
    if translate is None or not request.general or not candidates or not has_variants(plan := candidates[0][0]):
        return None

    def work(report: Report) -> None:
        first = {subject.variant(plan, case) for case in draw_cases(plan, request.seed, 1)}
        others = replace(subject, left_out=frozenset(first))
        translate(
            others,
            plan,
            lambda case: others.variant(plan, case) not in first,
            lambda case: report(others.variant(plan, case)),
        )

    process = start_ahead(work, request.seconds)
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


def _not_importable(request: TritonRequest) -> str | None:
    if not request.execute:
        return "this workspace is not trusted to execute code, and compiling a Triton kernel imports its module"
    package = importlib.util.find_spec("triton")
    # A folder of that name, such as one of kernels, has no origin.
    if package is None or package.origin is None:
        return "Triton is not installed. Install it: pip install 'gpuemu-lsp[triton]'"
    return None


def _imported(request: TritonRequest, entry: str, name: Place) -> TritonKernelSubject | Finding:
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
    seconds = max(request.seconds, IMPORT_SECONDS)
    try:
        with deadline(seconds), recorded_files():
            # Of a file that is not written to be imported, such as a benchmark, only what the kernel needs is executed.
            module = import_module(spec.source, request.text, None if "name" in spec.places else entry)
    except ModuleError as error:
        module = error.module if "name" not in spec.places else None
        if error.missing is not None:
            where = Path(error.path).name
            why = f"{where} imports {error.missing}, which is not installed. Install it: pip install {error.missing}"
            failed = _not_executed(spec, why, name)
        else:
            message, cause = f"{file} cannot be imported: {error.message}", Cause.NOT_IMPORTED
            failed = make("compile/error", message, name, kernel=spec.name, cause=cause)
        failed = _on_line(failed, request, error.path, error.line)
    except DeadlineError:
        failed = _not_executed(spec, f"the import of {file} took longer than {seconds:g} s. {_TESTS}", name)
    # A script that ends with statements that fail, such as those that need a GPU, has defined its kernels before.
    if module is None:
        assert failed is not None
        return failed
    subject = TritonKernelSubject(
        module, spec.source, request.text, entry, spec.name, name, request.arch[0], request.seconds, request.general
    )
    if subject.kernel is None:
        why = f"{file} has no Triton kernel '{entry}' at its top level after its import"
        return failed if failed is not None else _not_executed(spec, why, name)
    subject.import_failure = failed
    return subject


def _on_line(finding: Finding, request: TritonRequest, path: str, line: int | None) -> Finding:
    """Return the finding on a line of a file, where it is if there is none."""
    if line is None:
        return finding
    try:
        text = request.text if path == request.spec.source else Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return finding
    return replace(finding, place=Place(path, statement_range(text, line - 1, 0, python=True)))


def _not_executed(spec: KernelSpec, why: str, place: Place) -> Finding:
    return make("engine/not-executed", f"'{spec.name}' was not run: {why}.", place, kernel=spec.name)
