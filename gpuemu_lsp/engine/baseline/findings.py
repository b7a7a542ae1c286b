"""Findings for regressions, on the edited lines if the PTX has their positions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from gpuemu_lsp.engine.baseline.model import REGRESSION, Comparison, Delta, KernelChange, Value
from gpuemu_lsp.engine.findings import Finding, Place, Range, Related, Severity
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.rules import make

_WORDS = {
    "registers": "registers per thread",
    "spills": "bytes of spills",
    "local_memory": "bytes of local memory",
    "max_rel_diff": "relative error",
}
_NUMBERS = frozenset({"status", "max_diff", "max_rel_diff"})


def regressions(
    comparison: Comparison, specs: Mapping[str, KernelSpec], severity: Severity = Severity.WARNING
) -> tuple[Finding, ...]:
    """Return a finding for every figure that has regressed.

    Parameters
    ----------
    comparison : Comparison
        The comparison with the baseline.
    specs : Mapping[str, KernelSpec]
        The kernels by name. The finding of a kernel with unchanged code is on its entry in gpuemu.toml.
    severity : Severity
        Severity of the findings.
    """
    return tuple(
        _finding(comparison.tag, change, delta, specs.get(change.kernel), severity)
        for change in comparison.changes
        for delta in change.having(REGRESSION)
    )


def changed_lines(change: KernelChange) -> tuple[tuple[str, int], ...]:
    """Return the lines whose code differs, as (path, 0-based line), of the user's files, innermost inlined frame."""
    places = (
        next(((path, line) for path, line in code.places if path in change.files), None)
        for hunk in change.code
        for code in hunk.after
    )
    return tuple(sorted({place for place in places if place is not None}))


def shown(value: Value) -> str:
    """Return a figure as text."""
    return f"{value:.3g}" if isinstance(value, float) else str(value)


def _finding(tag: str, change: KernelChange, delta: Delta, spec: KernelSpec | None, severity: Severity) -> Finding:
    numeric = delta.name in _NUMBERS
    if delta.name == "status":
        verdicts = f"was '{shown(delta.before)}' in the baseline '{tag}' and is '{shown(delta.after)}' now"
        message = f"'{change.kernel}' {verdicts}."
    else:
        figure = _WORDS.get(delta.name, delta.name)
        message = f"{shown(delta.after)} {figure}; the baseline '{tag}' has {shown(delta.before)}."
    places = list(_places(change, spec))
    return make(
        "numeric/regression" if numeric else "artifact/regression",
        message,
        places[0],
        severity=severity,
        kernel=change.kernel,
        arch=change.arch,
        dtype=change.dtype or None,
        data={"baseline": tag, "figure": delta.name, "before": delta.before, "after": delta.after},
        related=tuple(Related(place, "also changed here") for place in places[1:]),
    )


def _places(change: KernelChange, spec: KernelSpec | None) -> Iterator[Place]:
    lines = changed_lines(change)
    yield from (Place(path, Range.of(line, 0, line, 1)) for path, line in lines)
    if not lines:
        entry = None if spec is None else spec.places.get("name") or spec.places.get("")
        yield entry or Place(change.files[0] if change.files else "", Range.of(0, 0, 0, 1))
