"""Comparison of computed struct sizes with those of the compiled kernel.

The definition in the source may not be the whole truth: ``#pragma pack``, a macro that adds a member, another
definition behind ``#if``. A plan whose structs have another size in the PTX must not run.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.plan.model import Plan, PlanResult, parameters
from gpuemu_lsp.engine.rules import make

_PARAMETER = re.compile(r"\.param\s+(?:\.align\s+\d+\s+)?\.\w+(?:\s+\.ptr[^,)]*)?\s+[\w$]+(?:\[(?P<bytes>\d+)\])?")


def with_compiled_sizes(result: PlanResult, ptx: str, entries: Mapping[str, str]) -> PlanResult:
    """Return the result without the plans whose structs differ in size from the PTX, and a finding for each of them."""
    kept: list[Plan] = []
    findings = list(result.findings)
    for plan in result.plans:
        problem = _difference(plan, ptx, entries.get(plan.entry, ""))
        if problem is None:
            kept.append(plan)
            continue
        message = f"'{plan.kernel}' was compiled but not run: {problem}"
        findings.append(make("engine/not-executed", message, plan.place, kernel=plan.kernel, severity=Severity.WARNING))
    return replace(result, plans=tuple(kept), findings=tuple(findings))


def _difference(plan: Plan, ptx: str, entry: str) -> str | None:
    members = [(number, args[0].member) for number, args in enumerate(parameters(plan.args)) if args[0].member]
    head = re.search(rf"\.entry\s+{re.escape(entry)}\s*\((?P<params>[^()]*)\)", ptx) if members else None
    if head is None:
        return None
    sizes = [match["bytes"] for match in _PARAMETER.finditer(head["params"])]
    for number, member in members:
        compiled = sizes[number] if number < len(sizes) else None
        if member is not None and compiled != str(member.size):
            return (
                f"the struct '{member.struct}' has {compiled or 'a scalar, not'} bytes in the compiled code, and "
                f"{member.size} by its definition. Packed structs are not supported."
            )
    return None
