"""Preparation of an op: its place, its plans, and the function itself, which a worker imports.

The function is the user's code: nothing is imported where the workspace is not trusted.
"""

from __future__ import annotations

import ast
import platform
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.deadline import IMPORT_SECONDS, DeadlineError, deadline
from gpuemu_lsp.engine.findings import Finding, Place, Range
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.project.load import op_not_executed
from gpuemu_lsp.engine.project.model import KernelSpec, OpSpec
from gpuemu_lsp.engine.regular_file import file_text
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.language import PreparedKernel, SourceRequest
from gpuemu_lsp.engine.subjects.ops.environments import installed_package, python_version
from gpuemu_lsp.engine.subjects.source_map import SourceMap, statement_range

if TYPE_CHECKING:
    from gpuemu_lsp.engine.subjects.ops.plans import OpPlans
    from gpuemu_lsp.engine.subjects.ops.subject import OpSubject


def prepare_op(request: SourceRequest) -> PreparedKernel:
    """Prepare an op. Imports its module if the workspace is trusted."""
    spec, text, seconds = request.spec, request.text, request.options.case_seconds
    op = spec.op
    assert op is not None
    name = spec.places.get("name") or spec.places.get("") or Place(spec.source, Range.of(0, 0, 0, 1))
    place = definition_of(spec, op, text) or name
    not_runnable = op_not_executed(spec)
    if not_runnable is not None:
        return request.stopped(not_runnable, place=name)
    if not request.options.execute:
        why = "this workspace is not trusted to execute code, and an op is code of the user"
        return request.stopped(request.not_run(why, name), place=place)
    from gpuemu_lsp.engine.oracle.opened_files import recorded_files
    from gpuemu_lsp.engine.subjects.ops.calls import OpFailure, import_op
    from gpuemu_lsp.engine.subjects.ops.other_interpreter import InterpreterError
    from gpuemu_lsp.engine.subjects.ops.plans import plan_op
    from gpuemu_lsp.engine.subjects.ops.schema import SchemaError, with_schema
    from gpuemu_lsp.engine.subjects.ops.subject import OpSubject
    from gpuemu_lsp.engine.subjects.user_module import ModuleError

    try:
        with deadline(max(seconds, IMPORT_SECONDS)), recorded_files():
            function = import_op(op, text if spec.source.endswith(".py") else None)
    except ModuleError as error:
        return request.stopped(_import_failure(request, error, name), place=place)
    except InterpreterError as error:
        where = spec.places.get("python", name)
        return request.stopped(request.not_run(error.message, where), place=place)
    except OpFailure as failure:
        key = spec.places.get("op") or spec.places.get("run") or spec.places.get("op_script") or name
        return request.stopped(make("config/bad-value", f"{failure.message}.", key, kernel=spec.name), place=place)
    except DeadlineError:
        why = f"its import took longer than {max(seconds, IMPORT_SECONDS):g} s"
        return request.stopped(request.not_run(why, name), place=place)
    try:
        spec = with_schema(spec)
    except SchemaError as error:
        key = spec.places.get("op_schema", name)
        return request.stopped(make("config/bad-value", f"{error}.", key, kernel=spec.name), place=place)
    planned = plan_op(spec, place)
    artifact = Artifact(spec.source, "", "", b"", {spec.name: spec.name}, {}, toolchain_of(op))
    files = {1: spec.source} if spec.source.endswith(".py") else {}
    source_map = SourceMap(files, lambda path: text if path == spec.source else None, place)
    subject = OpSubject(function, artifact, source_map, seconds)
    plans, findings = _with_outputs(spec, planned, subject, seconds, name)
    return PreparedKernel((*planned.findings, *findings), place, None, plans, (artifact,), subject=subject)


def _with_outputs(
    spec: KernelSpec, planned: OpPlans, subject: OpSubject, seconds: float, name: Place
) -> tuple[tuple[Plan, ...], tuple[Finding, ...]]:
    """Return the plans with outputs that gpuemu.toml does not declare, or the finding that says what to add."""
    from gpuemu_lsp.engine.oracle import ReferenceFailure, load
    from gpuemu_lsp.engine.subjects.ops.outputs import RESULT, UndeterminedError, with_outputs

    assert spec.reference is not None
    plans = []
    try:
        with deadline(10 * seconds):
            reference = load(spec.reference, spec.reference_function)
        for plan in planned.plans:
            plans.append(with_outputs(plan, reference, subject.results, set(planned.open_dtypes), 10 * seconds))
    except (ReferenceFailure, DeadlineError):
        # The check calls the reference too, and says on which line it fails.
        return planned.plans, ()
    except UndeterminedError as error:
        message = (
            f"'{spec.name}' was not run: {error}. Declare its outputs in `[ops.args]`: y = {{ out = [\"rows\"] }}."
        )
        return (), (make("config/ambiguous-signature", message, spec.places.get("args", name), kernel=spec.name),)
    declared = {arg.param for arg in planned.plans[0].args}
    subject.inferred = frozenset(arg.param for arg in plans[0].args) - declared
    subject.unnamed = any(name.startswith(RESULT) for name in subject.inferred)
    return tuple(plans), ()


def toolchain_of(op: OpSpec) -> str:
    """Return the versions of Python and of the packages that the op is of."""
    modules = dict.fromkeys((_module_of(op), "torch", "numpy"))
    environment = _environment_of(op)
    found = [package for module in modules if (package := installed_package(module, environment)) is not None]
    python = python_version(environment) if environment is not None else platform.python_version()
    return ", ".join([f"Python {python}", *(" ".join(package) for package in found)])


def library_of(op: OpSpec) -> tuple[str, str] | None:
    """Return the name and version of the installed package that an op is of; None for an op of the project."""
    return installed_package(_module_of(op), _environment_of(op))


def _module_of(op: OpSpec) -> str:
    return (op.module or (op.target or "").partition(":")[0]).partition(".")[0]


def _environment_of(op: OpSpec) -> Path | None:
    """Return the folder of the environment that an op is imported in, None for that of this process."""
    from gpuemu_lsp.engine.subjects.ops.calls import interpreter_of

    python = interpreter_of(op)
    return None if python is None else Path(python).parent.parent


def definition_of(spec: KernelSpec, op: OpSpec, text: str) -> Place | None:
    """Return the name of the op's function in its file, None if that is not in the project or has no such function."""
    if not spec.source.endswith(".py"):
        return None
    wanted = (op.target or "").rpartition(":")[2].rpartition(".")[2] or (op.run_function if op.run_file else "op")
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    lines = text.split("\n")
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) and node.name == wanted:
            line = node.lineno - 1
            start = len(lines[line][: lines[line].find(wanted, node.col_offset)].encode())
            return Place(spec.source, Range.of(line, start, line, start + len(wanted.encode())))
    return None


def _import_failure(request: SourceRequest, error: Exception, name: Place) -> Finding:
    from gpuemu_lsp.engine.subjects.user_module import ModuleError

    spec = request.spec
    assert isinstance(error, ModuleError)
    if error.missing is not None:
        from gpuemu_lsp.engine.subjects.ops.calls import interpreter_of

        assert spec.op is not None
        python = interpreter_of(spec.op)
        place = spec.places.get("op", name)
        if python is None:
            why = f"{error.missing} is not installed. Install it: pip install {error.missing}"
        else:
            why = f"{error.missing} is not installed there. Install it: {python} -m pip install {error.missing}"
        return request.not_run(why, place)
    found = make("op/error", f"'{spec.name}' cannot be imported: {error.message}", name, kernel=spec.name)
    if error.line is None:
        return found
    try:
        text = file_text(error.path)
    except (OSError, UnicodeDecodeError):
        return found
    return replace(found, place=Place(error.path, statement_range(text, error.line - 1, 0, python=True)))
