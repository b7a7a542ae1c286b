"""The SQLite file: path, schema with migrations, and transactions.

Several processes may use the file at once: every transaction takes the write lock at its start, and waits for it at
most ``_BUSY_SECONDS``. Errors of SQLite and the file system are raised as :class:`StoreError`.
"""

from __future__ import annotations

import contextlib
import sqlite3
import threading
from collections.abc import Iterator
from pathlib import Path

from gpuemu_lsp.engine.store.model import StoreError

FOLDER = ".gpuemu"
"""The project-local folder. It contains a .gitignore that excludes it from version control."""
FILE = "store.db"

_APPLICATION_ID = 0x67707565  # "gpue"; marks the file as ours (sqlite.org/pragma.html#pragma_application_id)
_BUSY_SECONDS = 15.0
"""Transactions take milliseconds; on a machine under load the process that holds the lock may not run for seconds."""

# Entry i migrates schema version i to i + 1. Entries must never be changed, since stores of all versions exist.
_MIGRATIONS: tuple[tuple[str, ...], ...] = (
    (
        """CREATE TABLE failures (
            id INTEGER PRIMARY KEY,
            kernel TEXT NOT NULL, dtype TEXT NOT NULL, rule TEXT NOT NULL, case_id TEXT NOT NULL,
            seed TEXT NOT NULL, strategy TEXT NOT NULL, key_dims TEXT,
            message TEXT NOT NULL, dims TEXT NOT NULL, line INTEGER,
            source_hash TEXT NOT NULL, minimised_from TEXT,
            found REAL NOT NULL, last_seen REAL NOT NULL,
            times_seen INTEGER NOT NULL DEFAULT 1, fixed INTEGER NOT NULL DEFAULT 0,
            UNIQUE (kernel, dtype, rule, case_id)
        )""",
        "CREATE INDEX failures_by_time ON failures (last_seen)",
        """CREATE TABLE tensors (
            failure INTEGER NOT NULL REFERENCES failures (id) ON DELETE CASCADE,
            name TEXT NOT NULL, dtype TEXT NOT NULL, shape TEXT NOT NULL, data BLOB NOT NULL,
            PRIMARY KEY (failure, name)
        )""",
        """CREATE TABLE verdicts (
            id INTEGER PRIMARY KEY,
            kernel TEXT NOT NULL, dtype TEXT NOT NULL, status TEXT NOT NULL,
            cases_run INTEGER NOT NULL, cases_passed INTEGER NOT NULL,
            source_hash TEXT NOT NULL, data TEXT NOT NULL, time REAL NOT NULL
        )""",
        "CREATE INDEX verdicts_by_kernel ON verdicts (kernel, dtype, time)",
        """CREATE TABLE baselines (
            tag TEXT NOT NULL, kernel TEXT NOT NULL, dtype TEXT NOT NULL, arch TEXT NOT NULL,
            numbers TEXT NOT NULL, resources TEXT NOT NULL, ptx BLOB NOT NULL, created REAL NOT NULL,
            PRIMARY KEY (tag, kernel, dtype, arch)
        )""",
    ),
    ("ALTER TABLE baselines ADD COLUMN origin TEXT NOT NULL DEFAULT '{}'",),
    ("ALTER TABLE failures ADD COLUMN shown BLOB",),
    ("ALTER TABLE failures ADD COLUMN optimized INTEGER NOT NULL DEFAULT 1",),
)


class Database:
    """A connection that is opened at first use. Safe to share between threads, not across a fork."""

    def __init__(self, root: Path) -> None:
        self.path = root / FOLDER / FILE
        self._lock = threading.RLock()
        self._connection: sqlite3.Connection | None = None

    @contextlib.contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Provide a connection in a transaction, which is committed at the end or rolled back on any exception.

        Raises
        ------
        StoreError
            If the file cannot be created, opened, read or written.
        """
        with self._lock:
            try:
                connection = self._open()
                connection.execute("BEGIN IMMEDIATE")
                try:
                    yield connection
                except BaseException:
                    connection.rollback()
                    raise
                connection.commit()
            except (sqlite3.Error, OSError, OverflowError) as error:
                raise StoreError(self._explain(error)) from error

    def exists(self) -> bool:
        """Return whether the file exists. Reading from a project without a store must not create one."""
        return self.path.exists()

    def close(self) -> None:
        """Close the connection; the next use opens it again."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

    def _open(self) -> sqlite3.Connection:
        if self._connection is not None:
            return self._connection
        _create_folder(self.path.parent)
        connection = sqlite3.connect(self.path, timeout=_BUSY_SECONDS, isolation_level=None, check_same_thread=False)
        try:
            connection.row_factory = sqlite3.Row
            connection.execute("PRAGMA foreign_keys = ON")
            self._migrate(connection)
            connection.execute("PRAGMA synchronous = NORMAL")  # with WAL, a power failure loses the last entries only
        except BaseException:
            connection.close()
            raise
        self._connection = connection
        return connection

    def _migrate(self, connection: sqlite3.Connection) -> None:
        if _version(connection) == len(_MIGRATIONS) and _is_ours(connection):
            return
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("BEGIN IMMEDIATE")  # excludes a concurrent migration by another process
        try:
            version = _version(connection)
            if version > len(_MIGRATIONS):
                raise StoreError(
                    f"{self.path} was written by a newer gpuemu-lsp; update gpuemu-lsp, or delete the file"
                )
            if not _is_ours(connection) and connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
                raise StoreError(f"{self.path} is not a store of gpuemu-lsp; move or delete it")
            for statements in _MIGRATIONS[version:]:
                for statement in statements:
                    connection.execute(statement)
            connection.execute(f"PRAGMA application_id = {_APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {len(_MIGRATIONS)}")
        except BaseException:
            connection.rollback()
            raise
        connection.commit()

    def _explain(self, error: Exception) -> str:
        text = str(error)
        if isinstance(error, sqlite3.OperationalError) and ("locked" in text or "busy" in text):
            return f"{self.path} is locked by another process"
        if isinstance(error, sqlite3.DatabaseError) and ("malformed" in text or "not a database" in text):
            return f"{self.path} is damaged ({text}); delete it to create a new store"
        return f"{self.path} cannot be used: {text}"


def _create_folder(folder: Path) -> None:
    folder.mkdir(exist_ok=True)
    with contextlib.suppress(FileExistsError), (folder / ".gitignore").open("x", encoding="ascii") as ignore:
        ignore.write("*\n")


def _version(connection: sqlite3.Connection) -> int:
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def _is_ours(connection: sqlite3.Connection) -> bool:
    return int(connection.execute("PRAGMA application_id").fetchone()[0]) == _APPLICATION_ID
