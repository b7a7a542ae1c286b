"""Inactive preprocessor regions: ``#if`` branches that NVRTC certainly skips.

Conditions are evaluated with three values. A macro of CUDA's headers, or a value that depends on the architecture,
makes a condition unknown, and a branch under an unknown condition counts as active.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gpuemu_lsp.engine.source.preprocessor.environment import MacroEnvironment
from gpuemu_lsp.engine.source.preprocessor.lexer import Directive, SourceText

Resolve: TypeAlias = Callable[[SourceText, str, Directive], str | None]
"""Function from a text, its path and an include directive to the path of the user header, None for other headers."""

_MAX_DEPTH = 30
_MAX_VISITS = 1000


@dataclass(slots=True)
class _OpenConditional:
    """An open ``#if``: ``live`` and ``start`` of its current branch, ``taken`` if an earlier branch was active.

    None is unknown in both.
    """

    live: bool | None
    taken: bool | None
    start: int


def defines(options: Sequence[str]) -> dict[str, str | None]:
    """Return the macros that compile options define: ``-DNAME``, ``-D NAME=VALUE``, ``--define-macro``, ``-U``."""
    found: dict[str, str | None] = {}
    waiting = list(options)
    while waiting:
        option = waiting.pop(0)
        match = re.match(r"(?:(?P<define>-D|--define-macro)|-U|--undefine-macro)(?P<rest>.*)", option, re.DOTALL)
        if match is None:
            continue
        rest = match["rest"].removeprefix("=") or (waiting.pop(0) if waiting else "")
        name, sign, value = rest.strip().partition("=")
        if match["define"] and name:
            found[name] = value if sign else "1"
        else:
            found.pop(name, None)
    return found


def inactive_regions(
    path: str, text: SourceText, headers: Mapping[str, SourceText], defines: Mapping[str, str | None], resolve: Resolve
) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return the inactive regions between directives by path, for a file and its headers.

    A region of a header that is included several times is inactive only if it is in every inclusion.
    """
    walk = _PreprocessorWalk(headers, MacroEnvironment(defines), resolve)
    walk.file(path, text, 0)
    return {name: _common(runs) for name, runs in walk.found.items()}


_CUDA_VERSIONS: dict[str, str | None] = {"CUDART_VERSION": "12000", "CUDA_VERSION": "12000"}
"""Versions in CUDA's host headers, at least; NVRTC defines neither, so that device code is read without them."""


class _VersionEnvironment(MacroEnvironment):
    """Nothing but the version of CUDA is known."""

    def is_defined(self, name: str) -> bool | None:
        """Return whether a macro is defined; None where that is unknown."""
        return True if name in _CUDA_VERSIONS else None

    def change(self, directive: Directive, certain: bool) -> None:
        """Ignore other macros."""


def without_older_cuda(path: str, text: SourceText) -> SourceText:
    """Return host code without the regions for versions of CUDA older than 12: ``#if CUDART_VERSION < 4000``."""
    if not any(name in directive.body for directive in text.directives for name in _CUDA_VERSIONS):
        return text
    walk = _PreprocessorWalk({}, _VersionEnvironment(_CUDA_VERSIONS), lambda *_: None)
    walk.file(path, text, 0)
    return text.without(_common(walk.found[path]))


class _PreprocessorWalk:
    """Walk over the directives of all files in the order of preprocessing."""

    def __init__(self, headers: Mapping[str, SourceText], environment: MacroEnvironment, resolve: Resolve) -> None:
        self._headers, self._environment, self._resolve = headers, environment, resolve
        self._once: set[str] = set()
        self._visits = 0
        self.found: dict[str, list[list[tuple[int, int]]]] = {}

    def file(self, path: str, text: SourceText, depth: int) -> None:
        self._visits += 1
        if path in self._once or depth > _MAX_DEPTH or self._visits > _MAX_VISITS:
            return
        spans: list[tuple[int, int]] = []
        branches: list[_OpenConditional] = []
        for directive in text.directives:
            kind = directive.kind
            if kind.startswith(("if", "el", "endif")):
                self._conditional(branches, directive, spans)
                continue
            states = [branch.live for branch in branches]
            if False in states:
                continue  # Inside an inactive region only conditionals count.
            certain = None not in states
            if kind in ("define", "undef"):
                self._environment.change(directive, certain)
            elif kind == "pragma" and directive.body.startswith("once"):
                self._once.add(path)
            elif kind in ("include", "include_next"):
                header = self._resolve(text, path, directive)
                if header in self._headers and header is not None and header != path:
                    self.file(header, self._headers[header], depth + 1)
        self.found.setdefault(path, []).append(spans)

    def _conditional(
        self, branches: list[_OpenConditional], directive: Directive, spans: list[tuple[int, int]]
    ) -> None:
        kind = directive.kind
        if kind.startswith("if"):
            outside = all(branch.live is not False for branch in branches)
            live = self._condition(kind[2:], directive.body) if outside else False
            branches.append(_OpenConditional(live, live, directive.end))
        elif branches:
            branch = branches[-1]
            outside = all(other.live is not False for other in branches[:-1])
            if branch.live is False and outside and branch.start < directive.start:
                spans.append((branch.start, directive.start))
            if kind == "endif":
                branches.pop()
                return
            live = True if kind == "else" else self._condition(kind[4:], directive.body)
            if branch.taken is True or not outside:
                live = False
            elif branch.taken is None and live is True:
                # An earlier branch may have been taken, so this one, although its own condition holds, is unknown.
                live = None
            branch.live, branch.start = live, directive.end
            branch.taken = True if True in (branch.taken, live) else None if None in (branch.taken, live) else False

    def _condition(self, kind: str, body: str) -> bool | None:
        """Evaluate the condition of ``#if``, ``#ifdef`` or ``#ifndef`` (``kind`` is "", "def" or "ndef")."""
        if not kind:
            return self._environment.evaluate(body)
        defined = self._environment.is_defined(body.split(maxsplit=1)[0]) if body else None
        return defined if kind == "def" or defined is None else not defined


def _common(runs: Sequence[Sequence[tuple[int, int]]]) -> tuple[tuple[int, int], ...]:
    common = set(runs[0])
    for run in runs[1:]:
        common &= {span for span in common if any(first <= span[0] and span[1] <= last for first, last in run)}
    return tuple(sorted(common))
