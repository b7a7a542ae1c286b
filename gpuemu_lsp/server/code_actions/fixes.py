"""Fixes of findings as text changes: pure functions of texts and findings."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from typing import Any

from gpuemu_lsp.engine.project.edits import TextChange, kernel_index, set_in_kernel
from gpuemu_lsp.engine.source.ignore_comments import ignorable
from gpuemu_lsp.server.code_actions.code_lines import EditableLine

LIMITS = {
    "artifact/registers": "max_registers",
    "artifact/spills": "max_spills",
    "artifact/local-memory": "max_local_memory",
}
_MARGIN = 1.5
_MAX_TOLERANCE = 0.02
"""A larger error is not a rounding error: the kernel is wrong, and no fix may hide that."""


def ignore(line: EditableLine, rule: str) -> TextChange | None:
    """Return the change that adds ``gpuemu: ignore[RULE]`` to a line.

    None where the rule cannot be ignored, or where the line's end cannot hold a comment.
    """
    if not ignorable(rule):
        return None
    content = line.content
    mark = line.suppression
    if mark is not None:
        return line.changed(mark.end("rules"), mark.end("rules"), f", {rule}")
    if content.rstrip().endswith("\\") or (line.comment == "//" and _in_block_comment(line.lines, line.number)):
        return None
    end = len(content.rstrip())
    return line.changed(end, end, f"  {line.comment} gpuemu: ignore[{rule}]")


def measured_tolerance(errors: Iterable[tuple[float, float]]) -> float | None:
    """Return the tolerance that covers errors, with a margin; None if they exceed any rounding error.

    Parameters
    ----------
    errors
        Pairs of absolute error and expected value. A tolerance ``t`` allows an error of ``t + t * |expected|``.
    """
    needed = [error / (1.0 + abs(expected)) for error, expected in errors]
    if not needed or not all(map(math.isfinite, needed)):
        return None
    wanted = _MARGIN * max(needed)
    if not 0.0 < wanted <= _MAX_TOLERANCE:
        return None
    digits = 1 - math.floor(math.log10(wanted))
    return float(f"{math.ceil(wanted * 10**digits) / 10**digits:.2g}")


def tolerance_edit(text: str, kernel: str, dtype: str, tolerance: float) -> TextChange | None:
    """Return the change of gpuemu.toml that sets a kernel's tolerance; None where it has no such kernel."""
    index = kernel_index(text, kernel)
    return None if index is None else set_in_kernel(text, index, "tolerances", dtype, f"{tolerance:g}")


def limit_edit(text: str, kernel: str, rule: str, value: int) -> TextChange | None:
    """Return the change of gpuemu.toml that sets a kernel's resource limit; None where it has no such kernel."""
    index = kernel_index(text, kernel)
    return None if index is None else set_in_kernel(text, index, "artifact_checks", LIMITS[rule], str(value))


def errors_of(data: Sequence[dict[str, Any]]) -> list[tuple[float, float]]:
    """Return absolute error and expected value of every element listed in findings."""
    pairs = []
    for item in data:
        rows = [*item.get("elements", ()), {"expected": item.get("expected"), "actual": item.get("actual")}]
        for row in rows:
            expected, actual = row.get("expected"), row.get("actual")
            if isinstance(expected, int | float) and isinstance(actual, int | float):
                pairs.append((abs(actual - expected), float(expected)))
    return pairs


def _in_block_comment(lines: Sequence[str], line: int) -> bool:
    """Return whether the end of a line lies inside ``/* ... */``, where ``//`` does not begin a comment."""
    text = re.sub(r'"(?:\\.|[^"\\\n])*"|//[^\n]*', "", "\n".join(lines[: line + 1]))
    return text.rfind("/*") > text.rfind("*/")
