"""The rule catalogue as text: a single rule for ``--explain``, all rules as a page of the documentation."""

from __future__ import annotations

import textwrap

from gpuemu_lsp.engine.rules import RULES, Rule

_HEAD = """\
# Rules

Every finding has one of these names. `gpuemu-lsp --explain RULE` shows one of them in the terminal.
An error makes `--check` exit with 1 (2 for `config/*`); warnings and hints do not. Hints are shown
with `--hints`. Each rule has an example with the finding, followed by the corrected code.

This page is generated from `gpuemu_lsp/engine/rules` by `python -m gpuemu_lsp.cli.pages docs`.
"""


def explanation(rule: Rule) -> str:
    """Return the text of ``--explain`` for one rule."""
    parts = [f"{rule.name} ({rule.severity.value}): {rule.summary}", rule.doc]
    if rule.example is not None:
        parts += [f"Bad:\n\n{_indented(rule.example.bad)}", f"Good:\n\n{_indented(rule.example.good)}"]
    return "\n\n".join(parts) + "\n"


def rules_page() -> str:
    """Return the catalogue as Markdown, with a section for each group."""
    parts = [_HEAD]
    group = ""
    for rule in RULES.values():
        if rule.name.partition("/")[0] != group:
            group = rule.name.partition("/")[0]
            parts.append(f"## {group}\n")
        doc = textwrap.fill(rule.doc, 100, break_long_words=False, break_on_hyphens=False)
        parts.append(f"### {rule.name}\n\n*{rule.severity.value}*: {rule.summary}\n\n{doc}\n")
        if rule.example is not None:
            language = rule.example.language
            parts.append(f"Bad:\n\n```{language}\n{rule.example.bad}```\n")
            parts.append(f"Good:\n\n```{language}\n{rule.example.good}```\n")
    return "\n".join(parts)


def _indented(code: str) -> str:
    return textwrap.indent(code.rstrip("\n"), "    ")
