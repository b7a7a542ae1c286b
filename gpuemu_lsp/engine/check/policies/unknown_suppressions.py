"""Findings on suppression comments that have no effect, because of the rule they name."""

from __future__ import annotations

import difflib
from collections.abc import Iterator

from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.rules import RULES, make
from gpuemu_lsp.engine.source.ignore_comments import ignorable, suppressions


def unknown_suppressions(path: str, text: str) -> Iterator[Finding]:
    """Yield a warning for each rule in a ``gpuemu: ignore`` comment that does not exist or cannot be suppressed."""
    for one in suppressions(text, path.endswith(".py")):
        if one.rule not in RULES:
            close = difflib.get_close_matches(one.rule, filter(ignorable, RULES), n=1, cutoff=0.6)
            hint = f" Did you mean `{close[0]}`?" if close else ""
            message = f"There is no rule `{one.rule}`.{hint}"
        elif not ignorable(one.rule):
            message = f"`{one.rule}` cannot be suppressed."
        else:
            continue
        yield make("config/unknown-suppression", message, Place(path, one.range))
