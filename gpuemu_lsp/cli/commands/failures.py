"""``gpuemu failures``: the stored failing cases of the project, latest first."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from gpuemu_lsp.cli.output import print_out
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.jobs.stored_case_runs import store_roots
from gpuemu_lsp.engine.project import discover
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_USAGE
from gpuemu_lsp.engine.store import Store, StoredFailure, StoreError


def list_failures(limit: int, form: str) -> int:
    """Print at most ``limit`` entries; return 0 if the store could be read, whether or not there are any."""
    roots = project_roots()
    if not roots:
        return EXIT_USAGE
    failures: list[StoredFailure] = []
    for root in roots:
        try:
            with Store(root) as store:
                failures += store.failures(limit)
        except StoreError as error:
            print(f"gpuemu: {error}", file=sys.stderr)
            return EXIT_USAGE
    failures = sorted(failures, key=lambda item: item.last_seen, reverse=True)[:limit] if len(roots) > 1 else failures
    if form == "json":
        document = {"version": 1, "failures": [_record(item) for item in failures]}
        print_out(json.dumps(document, indent=2, ensure_ascii=False) + "\n")
    else:
        print_out("".join(f"{line}\n" for line in failure_table(failures)) if failures else "No failing cases.\n")
    return EXIT_CLEAN


def project_root() -> Path | None:
    """Return the folder of the current gpuemu.toml and its store; print the reason and return None without one."""
    config = discover(Path.cwd())
    if config is None:
        print("gpuemu: no gpuemu.toml in this folder or above; gpuemu init creates one.", file=sys.stderr)
        return None
    return config.parent


def project_roots() -> list[Path]:
    """Return the folders whose stores a command reads; print the reason and return none without any."""
    if roots := store_roots(Path.cwd()):
        return roots
    project_root()
    return []


def failure_table(failures: Sequence[StoredFailure]) -> list[str]:
    """Return a heading and a line for each failure."""
    rows = [("ID", "KERNEL", "DTYPE", "RULE", "SIZES", "LAST SEEN")]
    for item in failures:
        failure = item.failure
        sizes = ", ".join(f"{name} = {size}" for name, size in failure.dims.items())
        seen = datetime.fromtimestamp(item.last_seen).strftime("%Y-%m-%d %H:%M")
        rows.append((item.case, failure.kernel, failure.dtype, failure.rule, sizes, seen))
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    return ["  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip() for row in rows]


def _record(item: StoredFailure) -> dict[str, Json]:
    failure = item.failure
    return {
        "case": item.case,
        "kernel": failure.kernel,
        "dtype": failure.dtype,
        "rule": failure.rule,
        "message": failure.message,
        "dims": dict(failure.dims),
        "line": failure.line,
        "minimized_from": failure.minimised_from,
        "found": item.found,
        "last_seen": item.last_seen,
        "times_seen": item.times_seen,
    }
