"""Comparison of baseline records: regressions and improvements of each kernel, and differences in its PTX.

A check draws the same cases from the same seed, and the emulator is deterministic: an unchanged kernel has bitwise
equal errors. The threshold is for edits that only change rounding.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from gpuemu_lsp.engine.baseline.model import CHANGE, IMPROVEMENT, REGRESSION, SAME, Comparison, Delta, KernelChange
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.fuzz.dtypes import FORMATS
from gpuemu_lsp.engine.ptx import PtxError, parse
from gpuemu_lsp.engine.ptx.diff import Hunk, diff_entries
from gpuemu_lsp.engine.store import BaselineRecord

THRESHOLD = 0.1
"""Default of ``[policies].warn_threshold``: relative growth of a figure that is still noise."""

_DOUBLED = 1.0
"""Growth of the absolute error that is a regression: it has no scale, so it must at least double.

The absolute error shows regressions that the largest relative error hides, if that belongs to the same ill-conditioned
case before and after."""

_ILL_CONDITIONED = 0.01
"""Relative error of a baseline's case above which its output is dominated by cancellation and not compared."""

_RANK = {"passed": 0, "unreferenced": 1, "not-executed": 2, "error": 3, "failed": 3}
_LARGER_IS_WORSE = ("registers", "spills", "local_memory")
_SHOWN = ("shared_memory", "constant_memory", "barriers")


def compare(
    tag: str,
    before: Sequence[BaselineRecord],
    after: Sequence[BaselineRecord],
    threshold: float = THRESHOLD,
    code: bool = True,
) -> Comparison:
    """Compare a baseline with new measurements.

    Parameters
    ----------
    tag : str
        Name of the baseline.
    before, after : Sequence[BaselineRecord]
        A record for each kernel, dtype and architecture.
    threshold : float
        Relative growth of a figure up to which it is a change, not a regression.
    code : bool
        Whether to compare the PTX too, which takes longest.
    """
    old, new = _by_instance(before, after), _by_instance(after, before)
    changes = [_change(old.get(key), new.get(key), key, threshold, code) for key in dict.fromkeys((*new, *old))]
    return Comparison(tag, tuple(sorted(changes, key=lambda item: (item.kernel, item.dtype, item.arch))))


def _by_instance(
    records: Sequence[BaselineRecord], others: Sequence[BaselineRecord]
) -> dict[tuple[str, str, str], BaselineRecord]:
    """Index records. A kernel that did not compile has one record without dtype, which stands for all its instances."""
    measured = {(record.kernel, record.dtype, record.arch): record for record in records if record.dtype}
    for record in records:
        if not record.dtype:
            instances = [other for other in others if other.kernel == record.kernel and other.dtype]
            for other in instances or [record]:
                measured[other.kernel, other.dtype, other.arch] = record
    return measured


def _change(
    old: BaselineRecord | None,
    new: BaselineRecord | None,
    key: tuple[str, str, str],
    threshold: float,
    code: bool,
) -> KernelChange:
    files = () if new is None else _files(new.origin)
    if old is None or new is None:
        return KernelChange(*key, presence="appeared" if old is None else "vanished", files=files)
    return KernelChange(
        *key,
        numbers=tuple(_numbers(old, new, threshold)),
        resources=tuple(_resources(old.resources, new.resources, threshold)),
        code=_code(old, new) if code else (),
        notes=tuple(_notes(old, new)),
        files=files,
        upgrade=_upgrade(old, new),
    )


def _upgrade(old: BaselineRecord, new: BaselineRecord) -> str:
    """Return the library of an op with both versions, "" if they are equal."""
    before, after = _text(old.origin, "library_version"), _text(new.origin, "library_version")
    return f"{new.origin.get('library')} {before} -> {after}" if before and after and before != after else ""


def _numbers(old: BaselineRecord, new: BaselineRecord, threshold: float) -> Iterator[Delta]:
    before, after = _text(old.numbers, "status"), _text(new.numbers, "status")
    if before is not None and after is not None:
        yield Delta("status", before, after, _judged(_RANK.get(before, 2), _RANK.get(after, 2), 0.0))
    noise = 2.0 * FORMATS[old.dtype].roundoff if old.dtype in FORMATS else 0.0  # a unit in the last place
    first, second = _errors(old.numbers), _errors(new.numbers)
    same_number = len(first) == len(second) if first or second else "failed" not in (before, after)
    comparable = same_number and _same_cases(old, new)
    figures = {name: _pair(old.numbers, new.numbers, name) for name in ("max_diff", "max_rel_diff")}
    well_conditioned = [
        pair for pair in zip(first, second, strict=False) if pair[0] <= max(_ILL_CONDITIONED, 8.0 * noise)
    ]
    if comparable and well_conditioned:
        figures["max_rel_diff"] = (
            max(before for before, _ in well_conditioned),
            max(after for _, after in well_conditioned),
        )
    relative = figures["max_rel_diff"]
    verdict = _judged(*relative, threshold, noise) if relative is not None and comparable else CHANGE
    for name, pair in figures.items():
        if pair is not None:
            absolute = name == "max_diff" and comparable and pair[0] > 0
            judged = _judged(*pair, max(threshold, _DOUBLED)) if absolute else CHANGE
            yield Delta(name, *pair, SAME if pair[0] == pair[1] else verdict if name == "max_rel_diff" else judged)


def _resources(before: Mapping[str, Json], after: Mapping[str, Json], threshold: float) -> Iterator[Delta]:
    old, new = _named(before), _named(after)
    for name in (*_LARGER_IS_WORSE, *_SHOWN):
        if name in old and name in new:
            verdict = _judged(old[name], new[name], threshold)
            yield Delta(name, old[name], new[name], CHANGE if verdict != SAME and name in _SHOWN else verdict)


def _named(usage: Mapping[str, Json]) -> dict[str, int]:
    """Return ptxas' resources under the names of the original gpuemu."""
    sums = {
        "registers": ("registers",),
        "spills": ("spill_stores", "spill_loads"),
        "local_memory": ("stack_bytes",),
        "shared_memory": ("static_shared_bytes",),
        "constant_memory": ("constant_bytes",),
        "barriers": ("barriers",),
    }
    figures: dict[str, int] = {}
    for name, parts in sums.items():
        values = [usage.get(part) for part in parts]
        if all(isinstance(value, int) for value in values):
            figures[name] = sum(value for value in values if isinstance(value, int))
    return figures


def _judged(before: float, after: float, threshold: float, noise: float = 0.0) -> str:
    """Return the verdict for a figure that should be small. Only changes beyond threshold and noise count."""
    if after == before:
        return SAME
    if after > before * (1.0 + threshold) + noise:
        return REGRESSION
    return IMPROVEMENT if before > after * (1.0 + threshold) + noise else CHANGE


def _code(old: BaselineRecord, new: BaselineRecord) -> tuple[Hunk, ...]:
    if old.ptx == new.ptx or not old.ptx or not new.ptx:
        return ()
    entry, other = _text(old.origin, "entry"), _text(new.origin, "entry")
    if entry is None or other is None:
        return ()
    try:
        first, second = parse(old.ptx), parse(new.ptx)
    except PtxError:
        return ()  # PTX of a toolchain that this version cannot parse; the notes name it
    if entry not in first.functions or other not in second.functions:
        return ()
    return diff_entries(first, entry, second, other)


def _notes(old: BaselineRecord, new: BaselineRecord) -> Iterator[str]:
    """Yield other differences, which may explain changes that no edit does."""
    for key, words in (("toolchain", "toolchain"), ("options", "compile options"), ("executor", "executor")):
        before, after = old.origin.get(key), new.origin.get(key)
        if before is not None and after is not None and before != after:
            yield f"{words}: {_shown(before)} -> {_shown(after)}"
    first, second = old.origin.get("kwargs"), new.origin.get("kwargs")
    if isinstance(first, dict) and isinstance(second, dict) and first != second:
        yield f"arguments of the op: {_changed_arguments(first, second)}"
    if not _same_cases(old, new):
        yield "the cases differ from the baseline's, so errors are shown but not compared"


def _changed_arguments(before: Mapping[str, Json], after: Mapping[str, Json]) -> str:
    """Return the keyword arguments that differ: ``causal False -> True, mode (none) -> mean``."""
    changed = [name for name in dict.fromkeys((*before, *after)) if before.get(name) != after.get(name)]
    return ", ".join(f"{name} {before.get(name, '(none)')} -> {after.get(name, '(none)')}" for name in changed)


def _shown(value: Json) -> str:
    return " ".join(map(str, value)) or "none" if isinstance(value, list) else str(value)


def _same_cases(old: BaselineRecord, new: BaselineRecord) -> bool:
    return all(old.origin.get(key) == new.origin.get(key) for key in ("seed", "cases", "executor"))


def _files(origin: Mapping[str, Json]) -> tuple[str, ...]:
    """Return the user's files that the code comes from, the source first."""
    source, headers = _text(origin, "source"), origin.get("headers")
    others = [str(path) for path in headers] if isinstance(headers, list) else []
    return (*([source] if source is not None else []), *others)


def _pair(before: Mapping[str, Json], after: Mapping[str, Json], name: str) -> tuple[float, float] | None:
    first, second = before.get(name), after.get(name)
    if isinstance(first, int | float) and isinstance(second, int | float):
        return float(first), float(second)
    return None


def _errors(numbers: Mapping[str, Json]) -> list[float]:
    """Return the relative error of every case; empty for records of earlier versions, which have only the largest."""
    errors = numbers.get("errors")
    return [float(error) for error in errors if isinstance(error, int | float)] if isinstance(errors, list) else []


def _text(values: Mapping[str, Json], name: str) -> str | None:
    value = values.get(name)
    return value if isinstance(value, str) else None
