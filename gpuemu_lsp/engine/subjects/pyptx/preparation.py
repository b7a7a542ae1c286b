"""Preparation of a pyptx kernel: its module is imported, its sizes and tensors resolved, and the first case traced.

The module is the user's code: nothing is imported where the workspace is not trusted.
"""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.deadline import IMPORT_SECONDS, DeadlineError, deadline
from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.fuzz import cases as draw_cases
from gpuemu_lsp.engine.fuzz.model import PlanError
from gpuemu_lsp.engine.lint import lint
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile
from gpuemu_lsp.engine.source.python import read_python
from gpuemu_lsp.engine.source.python.model import PyptxKernel, PythonSource
from gpuemu_lsp.engine.subjects.model import CodeError
from gpuemu_lsp.engine.subjects.pyptx.planning import (
    choose_pyptx_kernel,
    entry_template,
    pyptx_values,
    resolve_pyptx,
    sizes_plan,
    smallest_call,
)

if TYPE_CHECKING:
    from gpuemu_lsp.engine.subjects.pyptx.kernel import PyptxKernelSubject


@dataclass(frozen=True, slots=True)
class PyptxRequest:
    """A pyptx kernel to prepare.

    ``text`` is that of its file, ``arch`` the architecture of kernels that are for that of the device, ``seed`` that of
    the first case. ``seconds`` limits the import of the module and each trace. ``execute`` False imports nothing.
    """

    spec: KernelSpec
    text: str
    arch: str
    seed: int
    seconds: float
    execute: bool


@dataclass(frozen=True, slots=True)
class PyptxPreparation:
    """What is known of a pyptx kernel before it runs.

    ``artifact`` is the code of the first case. ``source`` has the kernel as a declaration.
    """

    findings: tuple[Finding, ...]
    plans: tuple[Plan, ...] = ()
    artifact: Artifact | None = None
    subject: PyptxKernelSubject | None = None
    source: SourceFile | None = None

    @property
    def artifacts(self) -> tuple[Artifact, ...]:
        """The artifact, if there is one."""
        return () if self.artifact is None else (self.artifact,)


def prepare_pyptx(request: PyptxRequest) -> PyptxPreparation:
    """Prepare a pyptx kernel. Executes the user's module if the workspace is trusted."""
    spec = request.spec
    source = read_python(spec.source, request.text)
    kernel, findings = choose_pyptx_kernel(spec, source)
    if kernel is None:
        return PyptxPreparation(findings)
    name = Place(spec.source, kernel.name_range)
    reason = _not_importable(request)
    if reason is not None:
        return PyptxPreparation((_not_executed(spec, reason, name),))
    imported = _imported(request, kernel, name)
    if isinstance(imported, Finding):
        return PyptxPreparation((imported,))
    try:
        plan, found = _plan(request, source, kernel, imported, name)
        code = imported.first(plan, request.seed) if plan is not None else None
    except CodeError as error:
        return PyptxPreparation(error.findings)
    except PlanError as error:
        return PyptxPreparation((make("config/bad-value", str(error), name, kernel=spec.name),))
    if plan is None or code is None:
        return PyptxPreparation(found)
    declared = KernelDecl(kernel.name, kernel.name, (), (), kernel.name_range, kernel.range, extern_c=True)
    file = SourceFile(spec.source, request.text, (declared,), (), (), {}, request.text)
    from gpuemu_lsp.engine.subjects.pyptx.assembly import with_assembly

    artifact, errors = with_assembly(code.artifact, code.source_map, spec.name)
    if errors:
        return PyptxPreparation((*found, *errors), source=file)
    return PyptxPreparation((*found, *lint(artifact, code.entry, spec, file)), (plan,), artifact, imported, file)


def _plan(
    request: PyptxRequest, source: PythonSource, kernel: PyptxKernel, subject: PyptxKernelSubject, name: Place
) -> tuple[Plan | None, tuple[Finding, ...]]:
    """Return the plan of a kernel, and findings; without one they say why."""
    spec = request.spec
    params = subject.parameters(kernel.params)
    values = pyptx_values(spec, params, name)
    if values.missing:
        place = spec.places.get("dims", name)
        missing = ", ".join(values.missing)
        if "name" in spec.places:
            added = "; ".join(f"{one} = [64, 128]" for one in values.missing)
            message = f"'{spec.name}' was not run: {missing} has no value. Add to [kernels.dims]: {added}"
            return None, (make("config/ambiguous-signature", message, place, kernel=spec.name),)
        message = (
            f"'{spec.name}' was not run: no call in the file gives {missing} as a number. Add it to gpuemu.toml:\n"
            f"{entry_template(kernel, source, values.missing)}"
        )
        return None, (make("engine/not-executed", message, name, kernel=spec.name),)
    if values.findings:
        return None, values.findings
    sizes = sizes_plan(spec, kernel, values, name)
    interface = subject.interface(sizes, next(iter(draw_cases(sizes, request.seed, 1))))
    plan, findings = resolve_pyptx(spec, sizes, interface)
    call = smallest_call(kernel)
    if plan is not None and "name" not in spec.places and call is not None and call.values:
        given = ", ".join(f"{one} = {value}" for one, value in call.values.items())
        message = f"'{spec.name}' is checked as line {call.range.start.line + 1} uses it: {given}."
        findings = (*findings, make("config/launch-inferred", message, name, kernel=spec.name))
    return plan, findings


def _not_importable(request: PyptxRequest) -> str | None:
    if not request.execute:
        return "this workspace is not trusted to execute code, and tracing a pyptx kernel imports its module"
    package = importlib.util.find_spec("pyptx")
    # A folder of that name, such as one of kernels, has no origin.
    if package is None or package.origin is None:
        return "pyptx is not installed. Install it: pip install 'gpuemu-lsp[pyptx]'"
    return None


def _imported(request: PyptxRequest, kernel: PyptxKernel, name: Place) -> PyptxKernelSubject | Finding:
    """Return the kernel of the imported module, or the finding that says why it cannot be imported."""
    from gpuemu_lsp.engine.oracle.opened_files import recorded_files
    from gpuemu_lsp.engine.subjects.pyptx.errors import trace_error
    from gpuemu_lsp.engine.subjects.pyptx.kernel import PyptxKernelSubject
    from gpuemu_lsp.engine.subjects.pyptx.tracing import use_architecture
    from gpuemu_lsp.engine.subjects.user_module import ModuleError, import_module

    spec, file = request.spec, Path(request.spec.source).name
    use_architecture(request.arch)
    seconds = max(request.seconds, IMPORT_SECONDS)
    try:
        with deadline(seconds), recorded_files():
            # Files with kernels import JAX for their tests, and time kernels: only what the kernel needs is executed.
            module = import_module(spec.source, request.text, kernel.entry)
    except ModuleError as error:
        if error.missing is not None:
            where = Path(error.path).name
            why = f"{where} imports {error.missing}, which is not installed. Install it: pip install {error.missing}"
            return _not_executed(spec, why, name)
        if "name" not in spec.places:
            return _not_executed(spec, f"{file} cannot be imported: {error.message}", name)
        cause = error.__cause__ or error
        return trace_error(cause, spec.source, lambda path: _text_of(path, request), name, spec.name)
    except DeadlineError:
        return _not_executed(spec, f"the import of {file} took longer than {seconds:g} s", name)
    origin = getattr(module, kernel.entry, None)
    if origin is None:
        return _not_executed(spec, f"{file} has no '{kernel.entry}' at its top level after its import", name)
    return PyptxKernelSubject(
        origin, kernel.builder is not None, spec.source, request.text, kernel.name, spec.name, name, request.seconds
    )


def _text_of(path: str, request: PyptxRequest) -> str | None:
    return request.text if path == request.spec.source else None


def _not_executed(spec: KernelSpec, why: str, place: Place) -> Finding:
    return make("engine/not-executed", f"'{spec.name}' was not run: {why}.", place, kernel=spec.name)
