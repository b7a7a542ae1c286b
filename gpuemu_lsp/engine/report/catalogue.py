"""The rule catalogue as text: a single rule for ``--explain``, all rules as a page of the documentation."""

from __future__ import annotations

from gpuemu_lsp.engine.rules import RULES, Rule

_HEAD = """\
# Rules

Every finding carries one of these names. `gpuemu-lsp --explain RULE` shows one of them in the terminal. An error makes
`--check` exit with 1 (2 for `config/*`); warnings and hints do not. A hint is shown with `--hints`.

This page is made from `gpuemu_lsp/engine/rules.py` by `python -m gpuemu_lsp.cli.pages docs`.
"""


def explanation(rule: Rule) -> str:
    """Return the text of ``--explain`` for one rule."""
    return f"{rule.name} ({rule.severity.value}): {rule.summary}\n\n{rule.doc}\n"


def rules_page() -> str:
    """Return the catalogue as Markdown, with a section for each group."""
    parts = [_HEAD]
    group = ""
    for rule in RULES.values():
        if rule.name.partition("/")[0] != group:
            group = rule.name.partition("/")[0]
            parts.append(f"## {group}\n")
        parts.append(f"### {rule.name}\n\n*{rule.severity.value}*: {rule.summary}\n\n{rule.doc}\n")
    return "\n".join(parts)
