"""Findings about kernels that no gpuemu.toml mentions.

The user has not requested such a kernel. It may be inside an inactive ``#if``, need a header that NVRTC lacks, or be a
template whose instance is guessed: none of that is a mistake.
"""

from __future__ import annotations

import ast
from dataclasses import replace

from gpuemu_lsp.engine.cause import Cause, ErrorTrait
from gpuemu_lsp.engine.compile.model import CompileResult
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.rules import make

_ENVIRONMENT_RULES = frozenset({"engine/not-executed", "engine/unsupported-instruction", "compile/missing-header"})
"""Rules about a missing header or feature, and not about the code."""

_CONFIGURATION_RULES = frozenset({"config/bad-value", "config/ambiguous-signature", "compile/missing-entry"})


def softened(finding: Finding) -> Finding:
    """Return a finding with the severity it has for an unregistered kernel."""
    if finding.rule in _ENVIRONMENT_RULES:
        return replace(finding, rule="engine/not-executed", severity=Severity.HINT)
    if finding.rule == "config/bad-value":
        return _without_configuration(finding)
    if finding.rule != "compile/missing-entry":
        return finding
    if finding.cause is Cause.UNKNOWN_INSTANCE:
        return _without_configuration(finding)
    message = "This kernel is not compiled: an #if excludes it."
    hint = make("engine/not-executed", message, finding.place, kernel=finding.kernel, severity=Severity.HINT)
    return replace(hint, cause=Cause.EXCLUDED)


def of_kernel(finding: Finding, spec: KernelSpec) -> Finding:
    """Return a finding, with the name of the kernel that did not run if it is about a file that includes it."""
    places = (finding.place, *(related.place for related in finding.related))
    if finding.kernel is not None or finding.rule != "engine/not-executed":
        return finding
    return finding if any(place.path == spec.source for place in places) else replace(finding, kernel=spec.name)


def _without_configuration(finding: Finding) -> Finding:
    """Return a finding about values of gpuemu.toml as a hint: for this kernel they were read from the program."""
    reason = finding.message.rstrip(".")
    if finding.kernel is None:
        # Of the compiler's request, such as an architecture that it does not have.
        message = f"This kernel is not compiled: {reason}."
    else:
        message = f"'{finding.kernel}' was compiled but not run: {reason}. Register it in gpuemu.toml."
    return replace(finding, rule="engine/not-executed", severity=Severity.HINT, message=message)


def without_guessed_instance(compiled: CompileResult, entry: str) -> CompileResult:
    """Return a failed compilation of the guessed instance ``entry`` with only the errors that any instance has.

    Without such errors it has a hint that the guess does not compile. NVRTC does not parse a template that is not
    instantiated, so no other errors are available.
    """
    certain = tuple(finding for finding in compiled.findings if ErrorTrait.TYPE_INDEPENDENT in finding.traits)
    if certain:
        return replace(compiled, findings=certain)
    first = next((finding for finding in compiled.findings if finding.rule == "compile/error"), None)
    if first is None:
        return compiled
    message = (
        f"This kernel was not run: the guessed instance '{entry}' does not compile: {first.message}. "
        "Set `entry` in gpuemu.toml to the instance to check."
    )
    hint = make("engine/not-executed", message, first.place, kernel=first.kernel, severity=Severity.HINT)
    return replace(compiled, findings=(replace(hint, cause=Cause.UNKNOWN_INSTANCE),))


def claim_before_run(finding: Finding, text: str) -> Finding:
    """Return a finding about a kernel that was not run with the severity that it has on sizes of the program.

    ``text`` is that of the kernel's file.
    Triton compiles for types and sizes, of which some may be assumed: an error that others would not have stays one.
    """
    if finding.cause is Cause.NOT_IMPORTED:
        return replace(finding, rule="engine/not-executed", severity=Severity.HINT)
    if ErrorTrait.TYPE_INDEPENDENT in finding.traits or _is_undefined(finding, text):
        return finding
    if finding.rule == "compile/error":
        message = f"'{finding.kernel}' was not run: it does not compile for the assumed types and sizes"
        message = f"{message} ({finding.message.rstrip('.')}). Register it in gpuemu.toml."
    elif finding.rule in _CONFIGURATION_RULES:
        message = f"'{finding.kernel}' was not run: {finding.message.rstrip('.')}. Register it in gpuemu.toml."
    else:
        return softened(finding)
    return replace(finding, rule="engine/not-executed", severity=Severity.HINT, message=message)


def _is_undefined(finding: Finding, text: str) -> bool:
    """Return whether a name is undefined everywhere in a file; else other compile-time values may define it."""
    if ErrorTrait.UNDECLARED not in finding.traits:
        return False
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return True
    stored = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return finding.data["name"] not in stored
