"""The report of a checker for people and for logs."""

from __future__ import annotations

import json
import sys

from gpuemu.verifier.records import Report

_COUNTS = ("calls", "checked", "outliers", "failed", "dropped", "not_executed")
_WIDTH = 200


def log_line(report: Report) -> str:
    """Return the totals as one line of JSON."""
    found: dict[str, int] = {name: getattr(report, name) for name in _COUNTS}
    return json.dumps({**found, "pending": report.pending})


def print_summary(report: Report) -> None:
    """Print a table of the operations to standard error, with colours on a terminal."""
    # Imported here: programs that call stop() need no table.
    from rich.box import SIMPLE_HEAD
    from rich.console import Console
    from rich.table import Table

    table = Table(
        box=SIMPLE_HEAD, title="gpuemu.verifier: " + ("clean" if report.clean else "not clean"), title_justify="left"
    )
    table.add_column("operation", overflow="fold")
    for name in _COUNTS:
        table.add_column(name.replace("_", " "), justify="right")
    for operation, counts in report.operations.items():
        style = "red" if counts.failed or counts.not_executed else None
        table.add_row(operation, *(str(getattr(counts, name)) for name in _COUNTS), style=style)
    # A file or a pipe has no width: names stay on one line.
    console = Console(file=sys.stderr, width=None if sys.stderr.isatty() else _WIDTH)
    console.print(table)
    for failure in report.failures[:3]:
        replay = "" if failure.case_id is None else f"; gpuemu reproduce {failure.case_id}"
        console.print(f"{failure.operation}, call {failure.step}: {failure.message}{replay}", markup=False)
