"""What can be done about a finding, as edits: pure functions from texts and findings to text changes."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.findings import Range
from gpuemu_lsp.engine.project.edits import TextChange, kernel_index, set_in_kernel
from gpuemu_lsp.engine.source.ignore_comments import MARK, ignorable

LIMITS = {
    "artifact/registers": "max_registers",
    "artifact/spills": "max_spills",
    "artifact/local-memory": "max_local_memory",
}
_MARGIN = 1.5
_ROUNDING = 0.02
"""A tolerance beyond this is no question of rounding any more: the kernel is wrong, and no edit of ours hides that."""


def ignore(text: str, line: int, rule: str) -> TextChange | None:
    """Return the change that silences a rule on a line; None where a comment cannot stand or would do nothing."""
    lines = text.split("\n")
    if line >= len(lines) or not ignorable(rule):
        return None
    written = lines[line].removesuffix("\r")
    mark = MARK.search(written)
    if mark is not None:
        column = len(written[: mark.end("rules")].encode())
        return TextChange(Range.of(line, column, line, column), f", {rule}")
    if written.rstrip().endswith("\\") or _in_block_comment(lines, line):
        return None
    column = len(written.rstrip().encode())
    return TextChange(Range.of(line, column, line, column), f"  // gpuemu: ignore[{rule}]")


def measured_tolerance(errors: Iterable[tuple[float, float]]) -> float | None:
    """Return the tolerance that the errors seen would need, with a margin; None when it is no rounding.

    Each pair is an absolute error and the expected value; a tolerance t allows ``t + t * |expected|``.
    """
    needed = [error / (1.0 + abs(expected)) for error, expected in errors]
    if not needed or not all(map(math.isfinite, needed)):
        return None
    wanted = _MARGIN * max(needed)
    if not 0.0 < wanted <= _ROUNDING:
        return None
    digits = 1 - math.floor(math.log10(wanted))
    return float(f"{math.ceil(wanted * 10**digits) / 10**digits:.2g}")


def tolerance_edit(text: str, kernel: str, dtype: str, tolerance: float) -> TextChange | None:
    """Return the change of gpuemu.toml that allows a kernel this much."""
    index = kernel_index(text, kernel)
    return None if index is None else set_in_kernel(text, index, "tolerances", dtype, f"{tolerance:g}")


def limit_edit(text: str, kernel: str, rule: str, value: int) -> TextChange | None:
    """Return the change of gpuemu.toml that allows a kernel the resources it uses."""
    index = kernel_index(text, kernel)
    return None if index is None else set_in_kernel(text, index, "artifact_checks", LIMITS[rule], str(value))


def seen_errors(data: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    """Return error and expected value of everything findings list."""
    pairs = []
    for found in data:
        rows = [*found.get("elements", ()), {"expected": found.get("expected"), "actual": found.get("actual")}]
        for row in rows:
            expected, actual = row.get("expected"), row.get("actual")
            if isinstance(expected, int | float) and isinstance(actual, int | float):
                pairs.append((abs(actual - expected), float(expected)))
    return pairs


def reference_name(source: str, kernel: str) -> str:
    """Return a name for a kernel's reference beside its source that is not taken."""
    plain = re.sub(r"\W+", "_", kernel)
    folder = Path(source).parent
    names = [f"ref_{plain}.py", *(f"ref_{plain}_{number}.py" for number in range(2, 100))]
    return next((folder / name).as_posix() for name in names if not (folder / name).exists())


def _in_block_comment(lines: list[str], line: int) -> bool:
    """Say whether the end of a line lies inside ``/* ... */``; a ``//`` there would be no comment of its own."""
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\n]*', "", "\n".join(lines[: line + 1]))
    return text.rfind("/*") > text.rfind("*/")
