"""The rules: every name that a finding can have, with its default severity, documentation and examples.

``--explain``, ``docs/rules.md``, SARIF and the editors' links are made from the records here. Names are
``group/rule`` and never change their meaning. There is one module per group; memory and synchronisation errors use the
terms of NVIDIA's Compute Sanitizer (memcheck, initcheck, racecheck, synccheck).
"""

from __future__ import annotations

from typing import Any

from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.rules import (
    api_rules,
    artifact_rules,
    compile_rules,
    config_rules,
    engine_rules,
    judge_rules,
    memory_rules,
    numeric_rules,
    op_rules,
    perf_rules,
    reference_rules,
    sync_rules,
)
from gpuemu_lsp.engine.rules.model import Example, Rule

__all__ = ["RULES", "Example", "Rule", "make"]

_GROUPS = (
    config_rules,
    compile_rules,
    numeric_rules,
    memory_rules,
    sync_rules,
    artifact_rules,
    reference_rules,
    op_rules,
    perf_rules,
    api_rules,
    engine_rules,
    judge_rules,
)

RULES: dict[str, Rule] = {rule.name: rule for group in _GROUPS for rule in group.RULES}
"""Every rule by name, in the order of the documentation."""
_LONGEST_MESSAGE = 8_000


def make(rule: str, message: str, place: Place, **fields: Any) -> Finding:
    """Build a finding with its rule's default severity. ``fields`` are the other fields of :class:`Finding`.

    A message that is much longer than any of ours, such as what a user's code raises, is cut.

    Raises
    ------
    KeyError
        If there is no rule of that name, so that no finding has an undocumented one.
    """
    severity = fields.pop("severity", RULES[rule].severity)
    if len(message) > _LONGEST_MESSAGE:
        message = f"{message[:_LONGEST_MESSAGE]} ... ({len(message):,} characters)"
    return Finding(rule=rule, message=message, place=place, severity=severity, **fields)
