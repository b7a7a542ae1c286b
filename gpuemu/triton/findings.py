"""Findings of a Triton launch, on lines of the ``.py`` file.

A race between threads of one program is not the author's: Triton's programs have no threads, and its compiler lays out
shared memory and lets several threads store one element. So only races between programs are reported.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import triton

from gpuemu.launches import findings_of
from gpuemu_lsp.engine.execution import Outcome, Request
from gpuemu_lsp.engine.findings import Finding

_TRITON = Path(triton.__file__).parent


def launch_findings(request: Request, outcome: Outcome) -> tuple[Finding, ...]:
    """Return what the checkers found in a launch."""
    return findings_of(request, outcome.events, _user_text, threads=False)


@cache
def _user_text(path: str) -> str | None:
    """Return the text of a file of the user's; functions of Triton's library are inlined into it."""
    if Path(path).is_relative_to(_TRITON):
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None
