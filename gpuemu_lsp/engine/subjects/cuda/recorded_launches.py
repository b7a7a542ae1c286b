"""Recorded launches of an unregistered kernel: which instances to compile for them, and their plans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.entry import bindings_of, choose_kernel
from gpuemu_lsp.engine.plan.facts import PlanOrigin
from gpuemu_lsp.engine.plan.mangled import parameter_types
from gpuemu_lsp.engine.plan.model import Plan, PlanResult
from gpuemu_lsp.engine.plan.recordings.arguments import MisfitError
from gpuemu_lsp.engine.plan.recordings.kernels import KernelLaunches, instance_of, launches_of
from gpuemu_lsp.engine.plan.recordings.plans import recorded_plan
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.recordings.project_files import read_recordings, recordings_root
from gpuemu_lsp.engine.regular_file import file_text
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile
from gpuemu_lsp.engine.source.python import read_python
from gpuemu_lsp.engine.subjects.request import CheckRequest

_REPLACED = frozenset({"engine/not-executed", "config/ambiguous-signature", "config/launch-inferred"})
"""Findings about a launch that was not found or was guessed."""

_SEVERAL = 2


def with_recorded_instances(request: CheckRequest, source: SourceFile, result: PlanResult) -> PlanResult:
    """Return a resolution whose entries have the template instances that a run has launched."""
    declaration = _declaration(request, source)
    if declaration is None or not declaration.template:
        return result
    found = [instance_of(declaration, one.kernel) for one in launches_of(request.root, request.spec, declaration)]
    recorded = tuple(dict.fromkeys(one for one in found if one is not None))
    if not recorded:
        return result
    # A guessed instance is none that the program has.
    others = () if result.guessed else tuple(one for one in result.entries if one not in recorded)
    kept = tuple(finding for finding in result.findings if finding.rule not in _REPLACED)
    return replace(result, entries=(*others, *recorded), findings=kept, guessed=False)


def with_recorded_plans(
    request: CheckRequest, source: SourceFile, result: PlanResult, entries: Mapping[str, str]
) -> PlanResult:
    """Return a resolution with the plans of recorded launches in place of plans that are guesses.

    They are last: of two findings on one line that of the program's own launch remains. ``entries`` maps name
    expressions to mangled names. A launch that no longer fits the kernel is a hint.
    """
    declaration = _declaration(request, source)
    if declaration is None:
        return result
    ambiguous = _in_several_strings(request.spec, declaration)
    plans: list[Plan] = []
    findings: list[Finding] = list(_unreadable(request, declaration))
    for found in launches_of(request.root, request.spec, declaration):
        expression = instance_of(declaration, found.kernel)
        if expression is None or expression not in entries:
            continue
        types = parameter_types(entries[expression]) or ()
        params = declaration.params
        named = zip(params, types, strict=True) if len(types) == len(params) else ()
        context = KernelContext(
            request.spec,
            declaration,
            source,
            bindings_of(declaration, expression),
            {param.type: text.rstrip("*&") for param, text in named},
        )
        try:
            if ambiguous:
                raise MisfitError("several strings of the file have a kernel of this name")
            plan = recorded_plan(context, expression, entries[expression], found)
        except MisfitError as error:
            findings.append(_misfit(request, context, found, str(error)))
            continue
        plans.append(plan)
        findings.append(_hint(plan, found))
    if not plans:
        return replace(result, findings=(*result.findings, *findings))
    closed = tuple(plan for plan in result.plans if _is_closed(plan))
    hidden = _REPLACED if not closed else _REPLACED - {"config/launch-inferred"}
    kept = (finding for finding in result.findings if finding.rule not in hidden)
    return replace(result, plans=(*closed, *plans), findings=(*kept, *findings))


def _declaration(request: CheckRequest, source: SourceFile) -> KernelDecl | None:
    if request.registered:
        return None
    return choose_kernel(request.spec, source)[0]


def _in_several_strings(spec: KernelSpec, declaration: KernelDecl) -> bool:
    """Return whether a .py has kernels of one name in several strings, which a recording does not distinguish."""
    if spec.string is None:
        return False
    try:
        module = read_python(spec.source, file_text(spec.source))
    except (OSError, UnicodeDecodeError):
        return False
    texts = {cuda.text.text for cuda in module.cuda}
    if len(texts) < _SEVERAL:
        return False
    kernels = [read(spec.source, text, spec.include_dirs).kernels for text in texts]
    return sum(any(kernel.name == declaration.name for kernel in each) for each in kernels) >= _SEVERAL


def _is_closed(plan: Plan) -> bool:
    """Return whether a plan follows from a launch in the program that leaves nothing open."""
    return plan.facts.origin is PlanOrigin.HOST_CODE and not (plan.inferred or plan.facts.open)


def _hint(plan: Plan, found: KernelLaunches) -> Finding:
    assert plan.recorded is not None
    cases = plan.recorded.cases
    texts = dict.fromkeys(case.text for case in cases)
    noun = "launch" if len(cases) == 1 else f"{len(cases)} launches"
    message = f"'{plan.kernel}' is checked with the {noun} that a run recorded: {'; '.join(texts)}"
    if plan.recorded.sizes:
        related = [f"grid = [{', '.join(map(str, plan.grid))}]", f"sizes: {', '.join(plan.recorded.sizes)}"]
        message = f"{message}; {'; '.join(related)}"
    return make("config/launch-inferred", f"{message}.", plan.place, kernel=plan.kernel, dtype=plan.dtype)


def _misfit(request: CheckRequest, context: KernelContext, found: KernelLaunches, why: str) -> Finding:
    message = (
        f"The recorded launches of '{request.spec.name}' ({found.recording.program}) are not used: {why.rstrip('.')}. "
        "Record the program again with `gpuemu run --record`."
    )
    return make("config/recording-unused", message, context.place, kernel=request.spec.name)


def _unreadable(request: CheckRequest, declaration: KernelDecl) -> list[Finding]:
    """Return the findings of recordings that cannot be read."""
    root = recordings_root(request.root, request.spec.source)
    errors = read_recordings(root)[1] if root is not None else []
    place = request.spec.places.get("")
    if place is None:
        return []
    return [
        make("config/recording-unused", f"A recording is not used: {error}.", place, kernel=request.spec.name)
        for error in errors
    ]
