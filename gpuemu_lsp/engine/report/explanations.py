"""Explanations of failing cases, as text and as JSON."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuemu_lsp.engine.check.model import Why
from gpuemu_lsp.engine.debug.explanation import Chain, ShownAccess, ShownValue, Step
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.report.json_format import finding_record
from gpuemu_lsp.engine.report.text import TextStyle, render_finding

_REASONS = {
    "value": "",
    "index": "for an index",
    "condition": "for a condition",
    "declaration": "",
}


def render_explanation(why: Why, root: str, style: TextStyle) -> str:
    """Render the answer: the finding, and statement by statement what it depends on."""
    lines = [f"{why.kernel} ({why.dtype}), case {why.case}"]
    if why.problem:
        lines.append(f"  Not explained: {why.problem}.")
    text = "\n".join(lines) + "\n"
    if why.finding is not None:
        text += "\n" + render_finding(why.finding, root, style)
    if why.explanation is not None:
        for chain in why.explanation.chains:
            text += "\n" + "\n".join(_chain(chain)) + "\n"
        for note in why.explanation.notes:
            text += f"  note: {note}\n"
        if not why.explanation.named:
            text += "  note: variables are not shown: the code that fails has no names of them\n"
    return text


def _chain(chain: Chain) -> Iterator[str]:
    yield f"  {chain.question}"
    width = max((len(str(step.place.range.start.line + 1)) for step in chain.steps), default=0)
    for step in chain.steps:
        yield f"    {step.place.range.start.line + 1:>{width}} | {step.text}"
        details = [_who(step), *(_value(value) for value in step.values)]
        if step.reason != "declaration":
            yield f"    {'':{width}} |     {', '.join(details)}"
        for access in step.accesses:
            yield f"    {'':{width}} |     {_access(access)}"
    for note in chain.notes:
        yield f"    note: {note}"


def _who(step: Step) -> str:
    x, y, z = step.thread
    who = f"thread ({x}, {y}, {z})"
    if step.threads > 1:
        who += f" of {step.threads}"
    if step.times > step.threads:
        who += f", {step.times} times"
    return f"{who} [{_REASONS[step.reason]}]" if _REASONS[step.reason] else who


def _value(value: ShownValue) -> str:
    before = f" (before: {', '.join(_text(one) for one in value.earlier)})" if value.earlier else ""
    return f"{value.name} = {_text(value.value)}{before}"


def _access(access: ShownAccess) -> str:
    value = "" if access.value is None else f" = {_text(access.value)}"
    return f"{access.access}s {access.name}{value}" + (f", {access.origin}" if access.origin else "")


def _text(value: Json) -> str:
    return f"{value:.7g}" if isinstance(value, float) else str(value)


def explanation_record(why: Why, root: str) -> dict[str, Json]:
    """Return the answer as JSON."""
    explanation = why.explanation
    return {
        "kernel": why.kernel,
        "dtype": why.dtype,
        "case": why.case,
        "problem": why.problem or None,
        "finding": finding_record(why.finding, root) if why.finding is not None else None,
        "block": list(explanation.block) if explanation is not None else None,
        "names": explanation.named if explanation is not None else None,
        "notes": list(explanation.notes) if explanation is not None else [],
        "chains": [_chain_record(chain, root) for chain in explanation.chains] if explanation is not None else [],
    }


def _chain_record(chain: Chain, root: str) -> Json:
    return {
        "question": chain.question,
        "notes": list(chain.notes),
        "steps": [_step_record(step, root) for step in chain.steps],
    }


def _step_record(step: Step, root: str) -> Json:
    path = Path(step.place.path)
    return {
        "file": path.relative_to(root).as_posix() if path.is_relative_to(root) else path.as_posix(),
        "line": step.place.range.start.line + 1,
        "text": step.text,
        "reason": step.reason,
        "thread": list(step.thread),
        "time": step.tick,
        "executions": step.times,
        "threads": step.threads,
        "values": [{"name": one.name, "value": one.value, "before": list(one.earlier)} for one in step.values],
        "accesses": [
            {
                "name": one.name,
                "value": one.value,
                "access": one.access,
                "origin": one.origin or None,
            }
            for one in step.accesses
        ],
    }
