"""Public interface of the store."""

from __future__ import annotations

import json
import math
import sqlite3
import time
import zlib
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Self

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.fuzz.model import CaseKey
from gpuemu_lsp.engine.store.database import Database
from gpuemu_lsp.engine.store.model import RECORDED, BaselineRecord, CheckVerdict, Failure, StoredFailure, StoreError
from gpuemu_lsp.engine.store.tensors import pack, unpack

MAX_FAILURES = 1000
"""Largest number of failures; the least recently seen are deleted, fixed ones first."""
MAX_TENSOR_BYTES = 64 << 20
"""Largest size of all stored tensors, compressed, in bytes."""
MAX_VERDICTS = 5000

_EVICTION_ORDER = "ORDER BY fixed DESC, last_seen ASC, id ASC"


class Store:
    """Failures, verdicts and baselines of one project. The file is created when something is written.

    Every method may raise :class:`StoreError`.

    Parameters
    ----------
    root : str or Path
        The project's folder; the store is its ``.gpuemu/store.db``.
    clock : Callable[[], float]
        Seconds since the epoch.
    """

    def __init__(self, root: str | Path, *, clock: Callable[[], float] = time.time) -> None:
        self.root = Path(root)
        self._database = Database(self.root)
        self._clock = clock

    # ---- failures ----------------------------------------------------------------------------------------------------

    def record(self, failure: Failure, details: Mapping[str, Json] | None = None) -> str:
        """Store a failing case, or update it if it failed before; return its case id.

        ``details`` are for front ends: the first wrong elements and the map of all wrong elements. None keeps those
        that are stored.
        """
        now = self._clock()
        key_dims = None if failure.key.dims is None else json.dumps(dict(failure.key.dims))
        packed = None if details is None else zlib.compress(_dump(dict(details)).encode())
        with self._database.transaction() as connection:
            (row,) = connection.execute(
                """INSERT INTO failures (kernel, dtype, rule, case_id, seed, strategy, key_dims, message, dims, line,
                                         source_hash, minimised_from, optimized, shown, found, last_seen)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
                   ON CONFLICT (kernel, dtype, rule, case_id) DO UPDATE SET
                       message = excluded.message, dims = excluded.dims, line = excluded.line,
                       strategy = excluded.strategy, key_dims = excluded.key_dims, source_hash = excluded.source_hash,
                       optimized = excluded.optimized, shown = coalesce(excluded.shown, shown),
                       last_seen = excluded.last_seen, times_seen = times_seen + 1, fixed = 0
                   RETURNING id""",
                (
                    *(failure.kernel, failure.dtype, failure.rule, failure.case),
                    *(str(failure.key.seed), failure.key.strategy, key_dims),
                    *(failure.message, json.dumps(dict(failure.dims)), failure.line),
                    *(failure.source_hash, failure.minimised_from, failure.optimized, packed, now, now),
                ),
            ).fetchall()
            connection.executemany(
                "INSERT OR REPLACE INTO tensors (failure, name, dtype, shape, data) VALUES (?, ?, ?, ?, ?)",
                [(row["id"], name, *pack(tensor)) for name, tensor in failure.tensors.items()],
            )
            _prune(connection, keep=row["id"])
        return failure.case

    def failures_for(self, kernel: str, dtype: str, limit: int = 50) -> list[StoredFailure]:
        """Return the cases to replay: failing cases, then those that passed when last run.

        Among each, minimised cases come first, then smaller ones, then those found earlier. The order does not depend
        on when a case last failed, so that consecutive checks show the same case until it passes. Recorded calls are
        not among them: no plan draws them.
        """
        if not self._database.exists():
            return []
        with self._database.transaction() as connection:
            rows = connection.execute(
                "SELECT id, fixed, minimised_from, dims FROM failures WHERE kernel = ? AND dtype = ? AND strategy != ?",
                (kernel, dtype, RECORDED),
            ).fetchall()
            chosen = [row["id"] for row in sorted(rows, key=_replay_order)[:limit]]
            marks = ", ".join("?" * len(chosen))
            found = connection.execute(f"SELECT * FROM failures WHERE id IN ({marks})", chosen).fetchall()
            by_id = {row["id"]: row for row in found}
            return [_failure(by_id[key], connection) for key in chosen]

    def failures_of(self, kernel: str) -> list[StoredFailure]:
        """Return all failures of a kernel, fixed ones included, in no particular order."""
        return self._failures("WHERE kernel = ?", (kernel,))

    def failures(self, limit: int = 20) -> list[StoredFailure]:
        """Return at most ``limit`` entries of failures that are not fixed, latest first."""
        return self._failures("WHERE NOT fixed ORDER BY last_seen DESC, id DESC LIMIT ?", (limit,))

    def find(self, case: str) -> list[StoredFailure]:
        """Return every failure with a case id, latest first. Kernels with the same seed share ids."""
        return self._failures("WHERE case_id = ? ORDER BY last_seen DESC, id DESC", (case,))

    def details(self, kernel: str, dtype: str, case: str) -> dict[str, Json]:
        """Return the stored details of a case; empty for a case stored by an earlier version."""
        if not self._database.exists():
            return {}
        with self._database.transaction() as connection:
            row = connection.execute(
                """SELECT shown FROM failures WHERE kernel = ? AND dtype = ? AND case_id = ? AND shown IS NOT NULL
                   ORDER BY last_seen DESC, id DESC LIMIT 1""",
                (kernel, dtype, case),
            ).fetchone()
        if row is None:
            return {}
        try:
            return _load(zlib.decompress(row["shown"]).decode())
        except (zlib.error, UnicodeDecodeError) as error:
            raise StoreError(f"the stored details of case {case} are damaged: {error}") from error

    def mark_fixed(self, kernel: str, dtype: str, case: str, *, optimized: bool = True) -> None:
        """Record that a stored case passes now, for the optimisation level at which it was found."""
        if self._database.exists():
            with self._database.transaction() as connection:
                connection.execute(
                    "UPDATE failures SET fixed = 1 WHERE kernel = ? AND dtype = ? AND case_id = ? AND optimized = ?",
                    (kernel, dtype, case, optimized),
                )

    def move(self, kernel: str, lines: Mapping[tuple[str, str, int], int]) -> None:
        """Move stored failures of a kernel whose text was edited around them.

        ``lines`` has the new 0-based line by dtype, rule and old line.
        """
        if not self._database.exists():
            return
        with self._database.transaction() as connection:
            rows = connection.execute(
                "SELECT id, dtype, rule, line FROM failures WHERE kernel = ?", (kernel,)
            ).fetchall()
            moved = [(lines.get((row["dtype"], row["rule"], row["line"])), row["id"]) for row in rows]
            connection.executemany(
                "UPDATE failures SET line = ? WHERE id = ?", [(line, key) for line, key in moved if line is not None]
            )

    def _failures(self, condition: str, parameters: tuple[str | int, ...]) -> list[StoredFailure]:
        if not self._database.exists():
            return []
        with self._database.transaction() as connection:
            rows = connection.execute(f"SELECT * FROM failures {condition}", parameters).fetchall()
            return [_failure(row, connection) for row in rows]

    # ---- verdicts ----------------------------------------------------------------------------------------------------

    def record_verdict(self, verdict: CheckVerdict) -> None:
        """Append to the history, with the current time."""
        with self._database.transaction() as connection:
            connection.execute(
                """INSERT INTO verdicts (kernel, dtype, status, cases_run, cases_passed, source_hash, data, time)
                   VALUES (?, ?, ?, ?, ?, ?, ?, ?)""",
                (
                    *(verdict.kernel, verdict.dtype, verdict.status, verdict.cases_run, verdict.cases_passed),
                    *(verdict.source_hash, _dump(dict(verdict.data)), self._clock()),
                ),
            )
            connection.execute("DELETE FROM verdicts WHERE id <= (SELECT max(id) FROM verdicts) - ?", (MAX_VERDICTS,))

    def verdicts(self, kernel: str, dtype: str | None = None, limit: int = 20) -> list[CheckVerdict]:
        """Return at most ``limit`` entries of a kernel's verdicts, latest first."""
        if not self._database.exists():
            return []
        with self._database.transaction() as connection:
            rows = connection.execute(
                """SELECT kernel, dtype, status, cases_run, cases_passed, source_hash, data, time FROM verdicts
                   WHERE kernel = ? AND (? IS NULL OR dtype = ?) ORDER BY id DESC LIMIT ?""",
                (kernel, dtype, dtype, limit),
            ).fetchall()
        return [CheckVerdict(**{**dict(row), "data": _load(row["data"])}) for row in rows]

    # ---- baselines ---------------------------------------------------------------------------------------------------

    def store_baseline(self, tag: str, records: Iterable[BaselineRecord], kernel: str | None = None) -> None:
        """Store ``records`` under ``tag``, replacing all records of the tag, or those of ``kernel``."""
        now = self._clock()
        rows = [
            (
                *(tag, record.kernel, record.dtype, record.arch),
                *(_dump(dict(record.numbers)), _dump(dict(record.resources)), zlib.compress(record.ptx.encode()), now),
                _dump(dict(record.origin)),
            )
            for record in records
        ]
        with self._database.transaction() as connection:
            connection.execute(
                "DELETE FROM baselines WHERE tag = ? AND (? IS NULL OR kernel = ?)", (tag, kernel, kernel)
            )
            connection.executemany("INSERT INTO baselines VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def baseline(self, tag: str, kernel: str | None = None) -> tuple[BaselineRecord, ...] | None:
        """Return a baseline, all of it or the records of ``kernel``; None if there are no records."""
        if not self._database.exists():
            return None
        with self._database.transaction() as connection:
            rows = connection.execute(
                "SELECT * FROM baselines WHERE tag = ? AND (? IS NULL OR kernel = ?) ORDER BY kernel, dtype, arch",
                (tag, kernel, kernel),
            ).fetchall()
        return tuple(_baseline(row) for row in rows) or None

    def baseline_tags(self) -> list[tuple[str, float]]:
        """Return the users' tags with the time they were stored, latest first. Internal tags start with ``@``."""
        if not self._database.exists():
            return []
        with self._database.transaction() as connection:
            rows = connection.execute(
                "SELECT tag, max(created) FROM baselines WHERE tag NOT LIKE '@%' GROUP BY tag ORDER BY 2 DESC, 1"
            ).fetchall()
        return [(row[0], row[1]) for row in rows]

    # ---- closing -----------------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file."""
        self._database.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _prune(connection: sqlite3.Connection, keep: int) -> None:
    """Delete failures beyond the limits, except ``keep``, which was stored just now."""
    connection.execute(
        f"""DELETE FROM failures WHERE id IN (
                SELECT id FROM failures WHERE id != ? {_EVICTION_ORDER}
                LIMIT max(0, (SELECT count(*) FROM failures) - ?))""",
        (keep, MAX_FAILURES),
    )
    total = connection.execute("SELECT coalesce(sum(length(data)), 0) FROM tensors").fetchone()[0]
    if total <= MAX_TENSOR_BYTES:
        return
    sizes = connection.execute(
        f"""SELECT failures.id, sum(length(data)) AS size FROM failures JOIN tensors ON failure = failures.id
            WHERE failures.id != ? GROUP BY failures.id {_EVICTION_ORDER}""",
        (keep,),
    ).fetchall()
    for row in sizes:
        if total <= MAX_TENSOR_BYTES:
            return
        connection.execute("DELETE FROM failures WHERE id = ?", (row["id"],))
        total -= row["size"]


def _replay_order(row: sqlite3.Row) -> tuple[bool, bool, int, int]:
    """Return a sort key that is smallest for the case to replay first; size is the product of the dims."""
    return bool(row["fixed"]), not row["minimised_from"], math.prod(_dims(row["dims"]).values()), row["id"]


def _failure(row: sqlite3.Row, connection: sqlite3.Connection) -> StoredFailure:
    tensors = connection.execute("SELECT * FROM tensors WHERE failure = ? ORDER BY name", (row["id"],)).fetchall()
    key_dims = None if row["key_dims"] is None else _dims(row["key_dims"])
    failure = Failure(
        kernel=row["kernel"],
        dtype=row["dtype"],
        rule=row["rule"],
        message=row["message"],
        key=CaseKey(int(row["seed"]), row["strategy"], key_dims),
        dims=_dims(row["dims"]),
        tensors={tensor["name"]: unpack(tensor["dtype"], tensor["shape"], tensor["data"]) for tensor in tensors},
        line=row["line"],
        source_hash=row["source_hash"],
        minimised_from=row["minimised_from"],
        optimized=bool(row["optimized"]),
    )
    return StoredFailure(
        failure, row["case_id"], row["found"], row["last_seen"], row["times_seen"], fixed=bool(row["fixed"])
    )


def _baseline(row: sqlite3.Row) -> BaselineRecord:
    try:
        ptx = zlib.decompress(row["ptx"]).decode()
    except (zlib.error, UnicodeDecodeError) as error:
        raise StoreError(f"the baseline {row['tag']} is damaged: {error}") from error
    numbers, resources = _load(row["numbers"]), _load(row["resources"])
    origin = _load(row["origin"])
    return BaselineRecord(row["kernel"], row["dtype"], row["arch"], numbers, resources, ptx, origin)


def _dump(value: Mapping[str, Json] | Mapping[str, int]) -> str:
    return json.dumps(value, sort_keys=True)


def _load(text: str) -> dict[str, Json]:
    try:
        value = json.loads(text)
    except ValueError as error:
        raise StoreError(f"a stored record is damaged: {error}") from error
    if not isinstance(value, dict):
        raise StoreError(f"a stored record is damaged: {text[:40]} is not an object")
    return value


def _dims(text: str) -> dict[str, int]:
    dims = _load(text)
    if not all(isinstance(size, int) for size in dims.values()):
        raise StoreError(f"stored sizes are damaged: {text[:40]}")
    return {name: size for name, size in dims.items() if isinstance(size, int)}
