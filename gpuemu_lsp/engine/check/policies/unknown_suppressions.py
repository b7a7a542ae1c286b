"""Findings on suppression comments that have no effect, because of the rule they name."""

from __future__ import annotations

from collections.abc import Iterator

from gpuemu_lsp.engine.findings import Finding, Place
from gpuemu_lsp.engine.project.message_text import closest, did_you_mean
from gpuemu_lsp.engine.rules import RULES, make
from gpuemu_lsp.engine.source.ignore_comments import ignorable, suppressions


def unknown_suppressions(path: str, text: str) -> Iterator[Finding]:
    """Yield a warning for each rule in a ``gpuemu: ignore`` comment that does not exist or cannot be suppressed."""
    for one in suppressions(text, path.endswith(".py")):
        if one.rule not in RULES:
            close = closest(one.rule, filter(ignorable, RULES))
            message = f"There is no rule `{one.rule}`.{did_you_mean(close)}"
        elif not ignorable(one.rule):
            message, close = f"`{one.rule}` cannot be suppressed.", None
        else:
            continue
        data = {} if close is None else {"suggestion": close}
        yield make("config/unknown-suppression", message, Place(path, one.range), data=data)
