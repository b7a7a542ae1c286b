"""Preparation of a pyptx kernel: its module is imported, its sizes and tensors resolved, and the first case traced.

The module is the user's code: nothing is imported where the workspace is not trusted.
"""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.deadline import IMPORT_SECONDS, DeadlineError, deadline
from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.fuzz import cases as draw_cases
from gpuemu_lsp.engine.fuzz.model import PlanError
from gpuemu_lsp.engine.lint import lint
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.python import read_python
from gpuemu_lsp.engine.source.python.model import PyptxKernel, PythonSource
from gpuemu_lsp.engine.subjects.language import PreparedKernel, SourceRequest, resources_of
from gpuemu_lsp.engine.subjects.model import CodeError
from gpuemu_lsp.engine.subjects.pyptx.plans import (
    choose_pyptx_kernel,
    entry_template,
    pyptx_values,
    resolve_pyptx,
    sizes_plan,
    smallest_call,
)
from gpuemu_lsp.engine.subjects.user_module import why_not_importable

if TYPE_CHECKING:
    from gpuemu_lsp.engine.subjects.pyptx.kernel import PyptxKernelSubject


def prepare_pyptx(request: SourceRequest) -> PreparedKernel:
    """Prepare a pyptx kernel. Executes the user's module if the workspace is trusted."""
    started, spec = time.perf_counter(), request.spec
    source = read_python(spec.source, request.text)
    kernel, findings = choose_pyptx_kernel(spec, source)
    if kernel is None:
        return request.stopped(*findings)
    name = Place(spec.source, kernel.name_range)
    reason = why_not_importable("pyptx", "pyptx", request.options.execute, "tracing a pyptx kernel")
    if reason is not None:
        return request.stopped(request.not_run(reason, name))
    imported = _imported(request, kernel, name)
    if isinstance(imported, Finding):
        return request.stopped(imported)
    try:
        plan, found = _plan(request, source, kernel, imported, name)
        code = imported.first(plan, request.options.seed) if plan is not None else None
    except CodeError as error:
        return request.stopped(*error.findings)
    except PlanError as error:
        return request.stopped(make("config/bad-value", str(error), name, kernel=spec.name))
    if plan is None or code is None:
        return request.stopped(*found)
    file = request.function(kernel.name, kernel.name_range, kernel.range)
    from gpuemu_lsp.engine.subjects.assembly import with_assembly

    artifact, errors = with_assembly(code.artifact, code.source_map, spec.name, _explained)
    if errors:
        return PreparedKernel((*found, *errors), request.place, file)
    return PreparedKernel(
        (*found, *lint(artifact, code.entry, spec, file)),
        request.place,
        file,
        (plan,),
        (artifact,),
        resources_of((artifact,)),
        compile_ms=(time.perf_counter() - started) * 1e3,
        subject=imported,
    )


def _plan(
    request: SourceRequest, source: PythonSource, kernel: PyptxKernel, subject: PyptxKernelSubject, name: Place
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
    interface = subject.interface(sizes, next(iter(draw_cases(sizes, request.options.seed, 1))))
    plan, findings = resolve_pyptx(spec, sizes, interface)
    call = smallest_call(kernel)
    if plan is not None and "name" not in spec.places and call is not None and call.values:
        given = ", ".join(f"{one} = {value}" for one, value in call.values.items())
        message = f"'{spec.name}' is checked as line {call.range.start.line + 1} uses it: {given}."
        findings = (*findings, make("config/launch-inferred", message, name, kernel=spec.name))
    return plan, findings


def _imported(request: SourceRequest, kernel: PyptxKernel, name: Place) -> PyptxKernelSubject | Finding:
    """Return the kernel of the imported module, or the finding that says why it cannot be imported."""
    from gpuemu_lsp.engine.oracle.opened_files import recorded_files
    from gpuemu_lsp.engine.subjects.pyptx.errors import trace_error
    from gpuemu_lsp.engine.subjects.pyptx.kernel import PyptxKernelSubject
    from gpuemu_lsp.engine.subjects.pyptx.tracing import use_architecture
    from gpuemu_lsp.engine.subjects.user_module import ModuleError, import_module

    spec, file = request.spec, Path(request.spec.source).name
    use_architecture(request.arch[0])
    seconds = max(request.options.translate_seconds, IMPORT_SECONDS)
    try:
        with deadline(seconds), recorded_files():
            # Files with kernels import JAX for their tests, and time kernels: only what the kernel needs is executed.
            module = import_module(spec.source, request.text, kernel.entry)
    except ModuleError as error:
        if error.missing is not None:
            where = Path(error.path).name
            why = f"{where} imports {error.missing}, which is not installed. Install it: pip install {error.missing}"
            return request.not_run(why, name)
        if "name" not in spec.places:
            return request.not_run(f"{file} cannot be imported: {error.message}", name)
        cause = error.__cause__ or error
        return trace_error(cause, spec.source, lambda path: _text_of(path, request), name, spec.name)
    except DeadlineError:
        return request.not_run(f"the import of {file} took longer than {seconds:g} s", name)
    origin = getattr(module, kernel.entry, None)
    if origin is None:
        return request.not_run(f"{file} has no '{kernel.entry}' at its top level after its import", name)
    return PyptxKernelSubject(
        origin,
        kernel.builder is not None,
        spec.source,
        request.text,
        kernel.name,
        spec.name,
        name,
        request.options.translate_seconds,
    )


def _text_of(path: str, request: SourceRequest) -> str | None:
    return request.text if path == request.spec.source else None


_ALLOCATION = re.compile(r"Unknown symbol '(?:smem|mbar)_\d+'")


def _explained(error: str) -> str:
    """Return an error of ptxas with the advice for code that pyptx emits."""
    if _ALLOCATION.search(error) is None:
        return error
    return (
        f"{error}. Above 48 KB of shared memory pyptx gives allocations no names of their own: take `.name` of the "
        "allocation, and add its `.byte_offset`"
    )
