"""Claims about Triton kernels whose launch is read from the program.

The launch determines extents and types, and the callers that the program has determine sizes. A finding with another
size is an error only if the launch allows every size: it rounds the size up, or has a program for each element.
"""

from __future__ import annotations

import ast
import re
from dataclasses import replace

from gpuemu_lsp.engine.check.policies.guessed_launch import not_checked
from gpuemu_lsp.engine.check.policies.unregistered import softened
from gpuemu_lsp.engine.execution import Event
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.oracle import Mismatch
from gpuemu_lsp.engine.plan.model import Plan, ReadLaunch

_INDEPENDENT = re.compile(
    r"module '[\w.]+' has no attribute|unexpected keyword argument|SyntaxError|unsupported AST node"
)
"""Errors of Triton's compiler that no other types or sizes would remove."""
_UNDEFINED = re.compile(r"\b(\w+) is not defined")
_CONFIGURATION_RULES = frozenset({"config/bad-value", "config/ambiguous-signature", "compile/missing-entry"})
_INCOMPLETE_RULES = frozenset({"sync/trap", "sync/hang"})
_VALUE_RULES = frozenset({
    "memory/out-of-bounds", "memory/misaligned", "memory/null-pointer", "sync/hang", "sync/trap", "sync/deadlock",
})  # fmt: skip


def claim_on_read_launch(finding: Finding, event: Event | None, plan: Plan, case: Case) -> Finding | None:
    """Return the finding with the severity that holds for every launch of the program; None where it says nothing."""
    launch = plan.read_launch
    assert launch is not None
    if event is not None and event.rule == "engine/timeout":
        return replace(finding, rule="engine/not-executed", severity=Severity.HINT)
    if event is not None and event.buffer in launch.uncertain:
        return None
    if launch.unseen and event is not None and finding.severity is Severity.ERROR and _needs_values(event):
        return _depends_on_values(finding, launch)
    if launch.host and event is not None and event.rule in _INCOMPLETE_RULES and not _is_given(case, plan, launch):
        # An assertion may demand sizes that the program alone has.
        return not_checked(finding)
    open_sizes = {name: value for name, value in case.dims.items() if not _is_allowed(name, value, plan, launch)}
    if not open_sizes or finding.severity is not Severity.ERROR:
        return finding
    if event is not None and event.rule in _INCOMPLETE_RULES:
        return not_checked(finding)
    sizes = ", ".join(f"{name} = {value}" for name, value in open_sizes.items())
    known = "the program is not known to launch it with" if launch.host else "no call in the program is known to have"
    message = f"{finding.message}; {known} {sizes}"
    return replace(finding, severity=Severity.INFORMATION, message=message)


def _is_given(case: Case, plan: Plan, launch: ReadLaunch) -> bool:
    """Return whether a case has sizes that the program itself has."""
    return not launch.unseen and all(value in launch.values.get(name, ()) for name, value in case.dims.items())


def is_judged(mismatch: Mismatch, launch: ReadLaunch) -> bool:
    """Return whether a mismatch is one of a buffer whose extent, and whose use by the program, are known."""
    if mismatch.param in launch.uncertain:
        return False
    return mismatch.rule != "numeric/unwritten-output" or mismatch.param not in launch.unjudged


def _needs_values(event: Event) -> bool:
    """Return whether other values of the inputs may be such that an event does not occur."""
    return event.rule.endswith("-race") or event.rule in _VALUE_RULES


def _depends_on_values(finding: Finding, launch: ReadLaunch) -> Finding:
    unseen = ", ".join(f"'{name}'" for name in sorted(launch.unseen))
    message = f"{finding.message}; the program does not show the values of {unseen}, which were assumed"
    return replace(finding, severity=Severity.INFORMATION, message=message)


def claim_before_run(finding: Finding, text: str) -> Finding:
    """Return a finding about a kernel that was not run with the severity that it has on sizes of the program.

    ``text`` is that of the kernel's file.
    Triton compiles for types and sizes, of which some may be assumed: an error that others would not have stays one.
    """
    if finding.rule == "compile/error" and "cannot be imported" in finding.message:
        return replace(finding, rule="engine/not-executed", severity=Severity.HINT)
    if finding.rule == "compile/error" and (
        _INDEPENDENT.search(finding.message) or _is_undefined(finding.message, text)
    ):
        return finding
    if finding.rule == "compile/error":
        message = f"'{finding.kernel}' was not run: it does not compile for the assumed types and sizes"
        message = f"{message} ({finding.message.rstrip('.')}). Register it in gpuemu.toml."
    elif finding.rule in _CONFIGURATION_RULES:
        message = f"'{finding.kernel}' was not run: {finding.message.rstrip('.')}. Register it in gpuemu.toml."
    else:
        return softened(finding)
    return replace(finding, rule="engine/not-executed", severity=Severity.HINT, message=message)


def _is_undefined(message: str, text: str) -> bool:
    """Return whether a name is defined nowhere in a file; else other compile-time values may define it."""
    found = _UNDEFINED.search(message)
    if found is None:
        return False
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return True
    stored = {one.id for one in ast.walk(tree) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
    return found[1] not in stored


def _is_allowed(name: str, value: int, plan: Plan, launch: ReadLaunch) -> bool:
    """Return whether the program shows that a size may have a value."""
    if value in launch.values.get(name, frozenset()):
        return True
    if name in launch.free or name in launch.ragged:
        return name not in launch.free
    dim = next((one for one in plan.dims if one.name == name), None)
    if dim is None or dim.choices:
        return True
    return value % launch.tile == 0
