"""Claims about Triton kernels whose launch is read from the program.

The launch determines extents and types, and the callers that the program has determine sizes. A finding with another
size is an error only if the launch allows every size: it rounds the size up, or has a program for each element.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Set
from dataclasses import replace

from gpuemu_lsp.engine.cause import Cause, ErrorTrait
from gpuemu_lsp.engine.check.policies.guessed_launch import needs_multiples, not_checked
from gpuemu_lsp.engine.check.policies.value_dependence import (
    ACCESS_RULES,
    Independent,
    may_differ,
    needs_values,
    nothing_known,
    with_assumption,
)
from gpuemu_lsp.engine.execution import Event
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.oracle import Mismatch
from gpuemu_lsp.engine.plan.model import COMPARISONS, Plan, ReadLaunch, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import Expression, evaluate, names
from gpuemu_lsp.engine.subjects.unregistered import softened

_CONFIGURATION_RULES = frozenset({"config/bad-value", "config/ambiguous-signature", "compile/missing-entry"})
_INCOMPLETE_RULES = frozenset({"sync/trap", "sync/hang"})
_WARP = 32
_LENGTH = re.compile(r"\bhas \d+ elements?\b")
_NEAR = 1 << 16
"""Bytes before a buffer at which an access is meant for it."""
_EXTENT_RULES = frozenset({"memory/out-of-bounds", "memory/texture-bounds"})


def claim_on_read_launch(
    finding: Finding,
    event: Event | None,
    plan: Plan,
    case: Case,
    independent: Independent = nothing_known,
) -> Finding | None:
    """Return the finding with the severity that holds for every launch of the program; None where it says nothing.

    ``independent`` returns :func:`~.value_dependence.independent_of_values`.
    """
    launch = plan.read_launch
    assert launch is not None
    if event is not None and event.rule == "engine/timeout":
        return replace(finding, rule="engine/not-executed", severity=Severity.HINT)
    if event is not None and event.buffer in launch.uncertain:
        if not _needs_no_length(event, case, launch):
            return None
        finding = replace(finding, message=_LENGTH.sub("begins at element 0", finding.message))
    if not launch.is_reached(case.dims):
        message = f"{finding.message}; the program does not launch it with these sizes"
        return replace(finding, severity=Severity.INFORMATION, message=message) if event is None else None
    if event is not None and event.rule in _EXTENT_RULES and _is_texture(event, plan):
        return None
    if launch.variant and (event is None or _is_of_block(event, plan)):
        # Arrays, barriers and outputs of a kernel are for its own number of threads, which may be another one.
        incomplete = event is not None and event.rule in (*_INCOMPLETE_RULES, "memory/out-of-bounds")
        return not_checked(finding) if incomplete else None
    if launch.uncertain and event is not None and event.rule == "memory/out-of-bounds":
        buffers = {arg.param for arg in plan.args if isinstance(arg, TensorArg)}
        # Far outside a buffer of assumed length, an access is in memory that is not a buffer's.
        if event.buffer not in buffers and ".shared" not in event.instruction and ".local" not in event.instruction:
            return None
    if event is not None and event.rule == "memory/null-pointer" and needs_values(event, plan, independent):
        # The program may have stored the pointer, as `cudaMemcpyToSymbol` of a struct does.
        message = f"'{finding.kernel}' was not checked: it reads a pointer from memory, where the program's own is not"
        return replace(finding, rule="engine/not-executed", severity=Severity.HINT, message=f"{message} known.")
    if launch.host and event is not None and event.cause is not None and event.cause.is_time_limit:
        # On the program's sizes a loop may be long and not endless, and the time depends on the machine.
        return not_checked(finding)
    if finding.severity is Severity.ERROR and may_differ(event, plan, case, independent):
        return with_assumption(finding, plan)
    if launch.host and event is not None and event.rule in _INCOMPLETE_RULES and not _is_given(case, plan, launch):
        # An assertion may demand sizes that the program alone has.
        return not_checked(finding)
    if event is not None and event.buffer in launch.ranks and event.rule in _EXTENT_RULES:
        message = f"{finding.message}; the program does not say how many dimensions '{event.buffer}' has"
        return replace(finding, severity=Severity.INFORMATION, message=message)
    if launch.open_lengths and finding.severity is Severity.ERROR and _needs_lengths(event, plan, case, independent):
        message = f"{finding.message}; the program does not show how large its buffers are"
        return replace(finding, severity=Severity.INFORMATION, message=message)
    if finding.severity is Severity.ERROR and (unlike := _unlike_the_program(event, plan, case, launch)):
        return replace(finding, severity=Severity.INFORMATION, message=f"{finding.message}; {unlike}")
    if event is not None and event.rule in _INCOMPLETE_RULES and _has_other_remainders(case, launch):
        return not_checked(finding)
    if finding.severity is Severity.ERROR and event is not None and _is_partial(event, plan, case, launch):
        own = ", ".join(f"{name} = {value}" for name, value in launch.program_sizes.items())
        message = f"{finding.message}; of the program's own {own} the access may divide its size"
        return replace(finding, severity=Severity.INFORMATION, message=message)
    hidden = _hidden(event, plan, launch)
    open_sizes = {
        name: value for name, value in case.dims.items() if name in hidden or not _is_allowed(name, value, plan, launch)
    }
    if launch.bounded and not _is_vector(event, plan):
        open_sizes = {
            name: one for name, one in open_sizes.items() if name not in launch.bounded - hidden - launch.free
        }
    if open_sizes and launch.host and event is not None and not needs_values(event, plan, independent):
        open_sizes = {name: value for name, value in open_sizes.items() if name in _deciding(event, plan)}
    if not open_sizes or finding.severity is not Severity.ERROR:
        return finding
    if launch.host and _is_within_block(event, plan, case, independent, frozenset(open_sizes)):
        return finding
    if event is not None and event.rule in _INCOMPLETE_RULES:
        return not_checked(finding)
    sizes = ", ".join(f"{name} = {value}" for name, value in open_sizes.items())
    known = "the program is not known to launch it with" if launch.host else "no call in the program is known to have"
    message = f"{finding.message}; {known} {sizes}"
    return replace(finding, severity=Severity.INFORMATION, message=message)


def _needs_no_length(event: Event, case: Case, launch: ReadLaunch) -> bool:
    """Return whether an event is wrong whatever the length of its buffer is: a race, or an access before its begin.

    Several sizes may depend on each other in a way that the length would show.
    """
    if not launch.host or len(case.dims) > 1:
        return False
    before = event.rule == "memory/out-of-bounds" and event.offset is not None and -_NEAR <= event.offset < 0
    return event.rule == "memory/global-race" or (before and event.buffer in launch.begins)


def _is_vector(event: Event | None, plan: Plan) -> bool:
    """Return whether an event is about an access to several elements, which may expect a multiple of them."""
    tensors = [one for one in plan.args if isinstance(one, TensorArg) and event is not None]
    return event is not None and any(one.param == event.buffer and needs_multiples(event, one) for one in tensors)


def _is_texture(event: Event, plan: Plan) -> bool:
    """Return whether an event is about a texture or surface, whose extents the program is not asked for."""
    tensors = (arg for arg in plan.args if isinstance(arg, TensorArg) and arg.texture is not None)
    return any(event.buffer == arg.param for arg in tensors)


def _is_of_block(event: Event, plan: Plan) -> bool:
    """Return whether an event is not about memory that a parameter points to."""
    return all(event.buffer != arg.param for arg in plan.args if isinstance(arg, TensorArg))


def _is_partial(event: Event, plan: Plan, case: Case, launch: ReadLaunch) -> bool:
    """Return whether an access of several elements is wrong where a size has another remainder than in the program."""
    arg = next((one for one in plan.args if isinstance(one, TensorArg) and one.param == event.buffer), None)
    if arg is None or not needs_multiples(event, arg):
        return False
    return _has_other_remainders(case, launch)


def _has_other_remainders(case: Case, launch: ReadLaunch) -> bool:
    sizes = launch.program_sizes.items()
    return any(name in case.dims and (case.dims[name] - value) % _WARP for name, value in sizes)


def _unlike_the_program(event: Event | None, plan: Plan, case: Case, launch: ReadLaunch) -> str:
    """Return what sets the sizes of a case apart from all that the program can have; empty if nothing does.

    Smaller sizes than the program's constants stand for them only if they are ordered and divide each other alike.
    """
    if launch.variant:
        return f"the program launches '{launch.variant}' in this way, and never this kernel"
    if launch.refuted:
        return "an assertion of the program does not hold where it reaches this launch"
    if not launch.selected and (event is None or event.rule in ACCESS_RULES):
        return "the program selects this kernel among others for some sizes only, which are not known"
    for branch in launch.branches:
        sides = [branch.holds, branch.fails]
        compare = COMPARISONS.get(branch.operator)
        if compare is not None and branch.left is not None and branch.right is not None:
            holds = compare(evaluate(branch.left, case.dims), evaluate(branch.right, case.dims))
            sides = [branch.holds if holds else branch.fails]
        if not any(all(case.dims.get(name) == value for name, value in side.items()) for side in sides):
            known = " or ".join(", ".join(f"{name} = {value}" for name, value in side.items()) for side in sides)
            return f"the program launches it with {known} only for these sizes"
    deciding = _deciding(event, plan) if event is not None else frozenset(case.dims)
    sizes = [
        (value, case.dims[name]) for name, value in launch.program_sizes.items() if name in deciding & {*case.dims}
    ]
    known = ", ".join(f"{name} = {value}" for name, value in launch.program_sizes.items())
    drawn_sizes = {name: value for name, value in case.dims.items() if name in deciding}
    if any(value % divisor for name, value in drawn_sizes.items() for divisor in launch.divisors.get(name, ())):
        return f"the program launches it with {known} only"
    # A remainder that the program's size does not have is tried only where kernel and launch are for any size.
    sizes = [(own, drawn) for own, drawn in sizes if (own - drawn) % _WARP == 0]
    for own, drawn in sizes:
        for other, other_drawn in sizes:
            if own >= other and (drawn < other_drawn or (own % other == 0 and drawn % other_drawn)):
                return f"the program launches it with {known} only"
    return ""


def _is_given(case: Case, plan: Plan, launch: ReadLaunch) -> bool:
    """Return whether a case has sizes that the program itself has."""
    return not launch.unseen and all(value in launch.values.get(name, ()) for name, value in case.dims.items())


def is_judged(mismatch: Mismatch, launch: ReadLaunch) -> bool:
    """Return whether a mismatch is one of a buffer whose extent, and whose use by the program, are known."""
    if mismatch.param in launch.uncertain:
        return False
    # Another kernel with the same parameters may write more elements with each thread.
    return mismatch.rule != "numeric/unwritten-output" or not (launch.variant or mismatch.param in launch.unjudged)


def _needs_lengths(event: Event | None, plan: Plan, case: Case, independent: Independent) -> bool:
    """Return whether an error may follow from sizes that are drawn independently and that some lengths would relate.

    What follows from one of them alone does not.
    """
    assert plan.read_launch is not None
    if len(case.dims) <= 1 or _is_given(case, plan, plan.read_launch):
        return False
    if any(_is_within_block(event, plan, case, independent, case.dims.keys() - {one}) for one in case.dims):
        return False
    return not _is_in_buffer_of_all_sizes(event, plan, case, plan.read_launch)


def _is_within_block(event: Event | None, plan: Plan, case: Case, independent: Independent, sizes: Set[str]) -> bool:
    """Return whether an event is a race in shared memory between accesses that do not depend on some sizes.

    The number of blocks may depend on them: each block makes these accesses.
    """
    if event is None or event.rule != "memory/shared-race" or plan.read_launch is None or not case.dims:
        return False
    deciding = frozenset[str]().union(*map(names, plan.block))
    open_block = {name for name in deciding & sizes if not _is_allowed(name, case.dims[name], plan, plan.read_launch)}
    return not open_block and not needs_values(event, plan, independent, frozenset(sizes))


def _is_in_buffer_of_all_sizes(event: Event | None, plan: Plan, case: Case, launch: ReadLaunch) -> bool:
    """Return whether an event is about a buffer whose length the program shows, and every size is a factor of it.

    Such sizes are independent: a length that the program does not show could not relate them to each other.
    """
    if event is None or event.buffer in launch.unjudged:
        return False
    mine = (arg.shape for arg in plan.args if isinstance(arg, TensorArg) and arg.param == event.buffer)
    return any(frozenset[str]().union(*map(names, shape)) >= case.dims.keys() for shape in mine)


def _hidden(event: Event | None, plan: Plan, launch: ReadLaunch) -> frozenset[str]:
    """Return the sizes of the buffer of an event that callers may relate to those which the kernel is passed."""
    if event is None or event.rule not in ACCESS_RULES or not launch.hidden:
        return frozenset()
    shapes = (arg.shape for arg in plan.args if isinstance(arg, TensorArg) and arg.param == event.buffer)
    return launch.hidden & frozenset[str]().union(*(names(extent) for shape in shapes for extent in shape))


def _deciding(event: Event, plan: Plan) -> frozenset[str]:
    """Return the sizes on which an access that does not depend on values can depend, and the extent of its buffer."""
    expressions = [*plan.grid, *plan.block, plan.shared]
    for arg in plan.args:
        if isinstance(arg, ScalarArg) and isinstance(arg.value, Expression):
            expressions.append(arg.value)
        elif isinstance(arg, TensorArg) and arg.pointer_offset is not None:
            expressions.append(arg.pointer_offset)
        if isinstance(arg, TensorArg) and arg.param == event.buffer:
            expressions += arg.shape
    return frozenset().union(*(names(expression) for expression in expressions))


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
