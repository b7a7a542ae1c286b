"""The store: round trips, order, limits, concurrent processes, and errors as StoreError."""

from __future__ import annotations

import itertools
import sqlite3
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest

from gpuemu_lsp.engine.fuzz.model import Case, CaseKey
from gpuemu_lsp.engine.store import BaselineRecord, CheckVerdict, Failure, Store, StoreError, restored
from gpuemu_lsp.engine.store import store as store_module
from gpuemu_lsp.engine.store.database import Database

ROOT = Path(__file__).parents[3]
U64 = 2**64 - 1


def failure(seed=7, kernel="k", dtype="float32", rule="numeric/nan", **fields):
    key = CaseKey(seed, fields.pop("strategy", "boundary"), fields.pop("key_dims", None))
    return Failure(kernel, dtype, rule, fields.pop("message", "m"), key, **fields)


@pytest.fixture
def store(tmp_path):
    with Store(tmp_path, clock=itertools.count(1000.0).__next__) as store:
        yield store


# ---- failures --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "sent",
    [
        failure(U64, dims={"n": 3, "rows": 2**40}, line=12, source_hash="abc", message="x\0ü'; DROP TABLE failures"),
        failure(1, key_dims={"n": 3}),
        failure(2, key_dims={}, minimised_from=str(U64)),
        failure(0),
    ],
)
def test_failures_round_trip(store, tmp_path, sent):
    case = store.record(sent)
    store.close()
    with Store(tmp_path) as again:
        (got,) = again.failures_for("k", "float32")
    assert (got.failure, got.case, got.times_seen, got.fixed) == (sent, case, 1, False)
    assert got.found == got.last_seen == 1000.0


@pytest.mark.parametrize(
    "tensor",
    [
        np.array([[1.5, np.nan], [-np.inf, -0.0]], np.float32),
        np.arange(6, dtype=np.float16)[::2],
        np.arange(24, dtype=np.int64).reshape(2, 3, 4).transpose(),
        np.array([1.0, -2.5], ml_dtypes.bfloat16),
        np.array([0.5, 448], ml_dtypes.float8_e4m3fn),
        np.array([True, False]),
        np.array([1, 2], ">i4"),
        np.zeros((0, 5), np.float64),
        np.float32(3.0).reshape(()),
        np.array([1 + 2j], np.complex64),
    ],
    ids=lambda tensor: f"{tensor.dtype.name}{list(tensor.shape)}",
)
def test_tensors_round_trip_bitwise(store, tensor):
    store.record(failure(tensors={"x": tensor, "y": np.ones(3, np.float32)}))
    got = store.failures()[0].failure.tensors
    assert got.keys() == {"x", "y"}
    assert got["x"].dtype.name == tensor.dtype.name and got["x"].shape == tensor.shape
    assert got["x"].tobytes() == tensor.astype(tensor.dtype.newbyteorder("=")).tobytes()
    got["x"][...] = 0  # writable


@pytest.mark.parametrize("tensor", [np.array([object()]), np.array([(1,)], [("a", "i4")])], ids=["object", "record"])
def test_object_and_record_arrays_are_rejected(store, tensor):
    with pytest.raises(StoreError, match=r"cannot be stored|unknown dtype"):
        store.record(failure(tensors={"x": tensor}))
    assert store.failures() == []  # the transaction was rolled back


def test_case_id_is_the_seed_or_a_hash():
    drawn = failure(U64)
    ones = {"x": np.ones(3, np.float32)}
    changed = [
        failure(U64, key_dims={"n": 1}, minimised_from="3"),
        failure(U64, key_dims={"n": 2}, minimised_from="3"),
        failure(U64, tensors=ones),
        failure(U64, tensors={"x": np.ones(3, np.float16)}),
        failure(U64, tensors={"x": np.ones((3, 1), np.float32)}),
        failure(U64, tensors={"y": np.ones(3, np.float32)}),
        failure(U64, tensors=ones, dtype="float16"),
        failure(U64, tensors=ones, kernel="j"),
    ]
    ids = [drawn.case, *(one.case for one in changed)]
    assert drawn.case == str(U64) and len(set(ids)) == len(ids)
    assert all(0 <= int(case) <= U64 and case == str(int(case)) for case in ids)
    a, b = (
        failure(1, key_dims=dict(dims), minimised_from="3") for dims in ([("a", 1), ("b", 2)], [("b", 2), ("a", 1)])
    )
    assert a.case == b.case
    assert failure(U64, key_dims={"n": 1}).case == str(U64)  # sizes in the key alone do not change the case


def test_repeated_failure_updates_its_entry(store):
    store.record(failure(message="first", dims={"n": 1}))
    store.record(failure(message="second", dims={"n": 2}))
    (got,) = store.failures()
    assert (got.times_seen, got.found, got.last_seen) == (2, 1000.0, 1001.0)
    assert (got.failure.message, got.failure.dims) == ("second", {"n": 2})


@pytest.mark.parametrize("other", [{"kernel": "j"}, {"dtype": "float16"}, {"rule": "memory/shared-race"}, {"seed": 8}])
def test_different_failures_are_separate_entries(store, other):
    store.record(failure())
    store.record(failure(**other))
    assert len(store.failures()) == 2


def test_failures_are_listed_by_time(store):
    for seed in (5, U64, 1, 9):
        store.record(failure(seed))
    store.record(failure(5))
    assert [got.case for got in store.failures()] == ["5", "9", "1", str(U64)]
    assert [got.case for got in store.failures(limit=2)] == ["5", "9"]


def test_replay_order_is_failing_cases_first(store):
    for seed in (1, 2, 3):
        store.record(failure(seed))
    store.record(failure(4, kernel="other"))
    store.record(failure(5, dtype="float16"))
    store.mark_fixed("k", "float32", "3")
    assert [(got.case, got.fixed) for got in store.failures_for("k", "float32")] == [
        ("1", False),
        ("2", False),
        ("3", True),
    ]
    assert "3" not in {got.case for got in store.failures()}


def test_the_case_to_replay_first_does_not_change_while_it_fails(store):
    """The first one is the case an editor shows: it would alternate if it depended on when each failed last."""
    for seed, n in ((1, 600), (2, 7), (3, 40)):
        store.record(replace(failure(seed), dims={"n": n}))
    for again in ((2, 7), (3, 40), (1, 600)):
        assert [got.case for got in store.failures_for("k", "float32")] == ["2", "3", "1"]
        store.record(replace(failure(again[0]), dims={"n": again[1]}))
    minimised = store.record(replace(failure(9), dims={"n": 50}, minimised_from="1"))
    assert [got.case for got in store.failures_for("k", "float32", limit=2)] == [minimised, "2"]
    store.mark_fixed("k", "float32", minimised)
    assert [got.case for got in store.failures_for("k", "float32")] == ["2", "3", "1", minimised]


def test_find_by_case_id(store):
    for kernel in ("k", "j"):
        store.record(failure(1, kernel=kernel, tensors={"x": np.ones(2)}))
    case = store.record(failure(1, key_dims={"n": 2}, minimised_from="1"))
    assert {got.failure.kernel for got in store.failures()} == {"k", "j"}
    (minimised,) = store.find(case)
    assert minimised.failure.key.dims == {"n": 2}
    assert store.find("no such") == []


def test_number_of_failures_is_limited(store, monkeypatch):
    monkeypatch.setattr(store_module, "MAX_FAILURES", 3)
    for seed in range(1, 4):
        store.record(failure(seed))
    store.mark_fixed("k", "float32", "3")
    store.record(failure(4))
    store.record(failure(5))
    assert [got.case for got in store.failures_for("k", "float32")] == ["2", "4", "5"]


def test_size_of_tensors_is_limited(store, monkeypatch):
    monkeypatch.setattr(store_module, "MAX_TENSOR_BYTES", 3000)
    noise = np.random.default_rng(0)
    for seed in range(1, 6):
        store.record(failure(seed, tensors={"x": noise.integers(0, 256, 1200, np.uint8)}))
    store.record(failure(6))
    last = store.record(failure(7, tensors={"x": noise.integers(0, 256, 9000, np.uint8)}))
    cases = [got.failure.key.seed for got in store.failures()]
    assert cases == [7, 6] and store.find(last)


# ---- verdicts and baselines ------------------------------------------------------------------------------------------


def test_number_of_verdicts_is_limited(store, monkeypatch):
    monkeypatch.setattr(store_module, "MAX_VERDICTS", 3)
    for passed in range(5):
        store.record_verdict(CheckVerdict("k", "float32", "failed", 10, passed, "h", {"max_error": 0.5}))
    store.record_verdict(CheckVerdict("k", "float16", "passed", 10, 10))
    assert [(got.dtype, got.cases_passed) for got in store.verdicts("k")] == [
        ("float16", 10),
        ("float32", 4),
        ("float32", 3),
    ]
    (latest,) = store.verdicts("k", "float32", limit=1)
    assert latest == CheckVerdict("k", "float32", "failed", 10, 4, "h", {"max_error": 0.5}, time=1004.0)
    assert store.verdicts("unknown") == []


def test_baseline_is_replaced_as_a_whole(store):
    first = BaselineRecord("a", "float32", "sm_80", {"max_error": 1e-7}, {"registers": 32}, "// ptx ü\n" * 1000)
    store.store_baseline("v1", [first, replace(first, kernel="b")])
    store.store_baseline("v1", [replace(first, ptx="")])
    store.store_baseline("v2", [replace(first, arch="sm_90"), first])
    assert store.baseline("v1") == (replace(first, ptx=""),)
    assert store.baseline("v2") == (first, replace(first, arch="sm_90"))
    assert store.baseline("v3") is None
    assert store.baseline_tags() == [("v2", 1002.0), ("v1", 1001.0)]


def test_restored_values_must_match_shape_and_dtype():
    def case(**tensors):
        return Case(CaseKey(1, "s"), "float32", {}, tensors, {}, {}, (1, 1, 1), (1, 1, 1), 0)

    x = np.arange(3, dtype=np.float32)
    stored = failure(tensors={"x": x})
    got = restored(stored, case(x=np.zeros(3, np.float32), y=np.ones(2)))
    assert got is not None and got.tensors["x"].tolist() == [0, 1, 2] and got.tensors["y"].tolist() == [1, 1]
    for other in (case(x=np.zeros(4, np.float32)), case(x=np.zeros(3, np.float16)), case(z=np.zeros(3, np.float32))):
        assert restored(stored, other) is None
    plain = case(x=x)
    assert restored(failure(), plain).tensors == plain.tensors


# ---- the file --------------------------------------------------------------------------------------------------------


def test_reading_creates_nothing(store, tmp_path):
    assert store.failures() == store.failures_for("k", "float32") == store.find("1") == store.verdicts("k") == []
    assert store.baseline("t") is None and store.baseline_tags() == []
    store.mark_fixed("k", "float32", "1")
    assert list(tmp_path.iterdir()) == []


def test_folder_is_excluded_from_version_control(store, tmp_path):
    store.record(failure())
    assert (tmp_path / ".gpuemu" / ".gitignore").read_text() == "*\n"


def _damage(path):
    path.write_bytes(path.read_bytes()[:100] + b"\xff" * 20000)


UNUSABLE = {
    "not a database": (lambda path: path.write_bytes(b"hello " * 1000), "damaged"),
    "damaged pages": (_damage, "damaged"),
    "newer": (lambda path: _execute(path, "PRAGMA user_version = 99"), "newer gpuemu-lsp"),
    "foreign": (lambda path: _execute(path, "PRAGMA application_id = 5", "PRAGMA user_version = 0"), "not a store of"),
    "a folder": (lambda path: (path.unlink(), path.mkdir()), "cannot be used"),
}


def _execute(path, *statements):
    connection = sqlite3.connect(path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


@pytest.mark.parametrize(("spoil", "says"), UNUSABLE.values(), ids=UNUSABLE.keys())
def test_unusable_file_is_an_error(tmp_path, spoil, says):
    with Store(tmp_path) as store:
        store.record(failure())
    path = tmp_path / ".gpuemu" / "store.db"
    spoil(path)
    with Store(tmp_path) as store:
        for action in (lambda: store.record(failure()), store.failures, lambda: store.baseline("t")):
            with pytest.raises(StoreError, match=says) as error:
                action()
            assert str(path) in str(error.value)


@pytest.mark.parametrize("prepare", [lambda root: (root / ".gpuemu").write_text(""), lambda root: root.rmdir()])
def test_folder_that_cannot_be_created_is_an_error(tmp_path, prepare):
    root = tmp_path / "project"
    root.mkdir()
    prepare(root)
    with Store(root) as store, pytest.raises(StoreError, match="cannot be used"):
        store.record(failure())


def test_locked_file_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("gpuemu_lsp.engine.store.database._BUSY_SECONDS", 0.05)
    with Store(tmp_path) as store, Store(tmp_path) as other:
        store.record(failure())
        with Database(tmp_path).transaction(), pytest.raises(StoreError, match="locked by another process"):
            other.record(failure())
        other.record(failure())
        assert store.failures()[0].times_seen == 2


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE tensors SET data = x'00'",
        "UPDATE tensors SET shape = '[5]'",
        "UPDATE tensors SET shape = 'x'",
        "UPDATE tensors SET dtype = 'object'",
        "UPDATE tensors SET dtype = 'nonsense'",
        "UPDATE failures SET dims = 'x'",
        "UPDATE failures SET dims = '[]'",
        'UPDATE failures SET dims = \'{"n": "x"}\'',
    ],
)
def test_damaged_rows_are_an_error(store, tmp_path, statement):
    store.record(failure(tensors={"x": np.ones(3, np.float32)}))
    _execute(tmp_path / ".gpuemu" / "store.db", statement)
    with pytest.raises(StoreError):
        store.failures()


def test_failed_transaction_is_rolled_back(store):
    store.record(failure(1))
    with pytest.raises(StoreError):
        store.record(failure(2, message="m", dims={"n": 1}, line=2**70))
    store.record(failure(3))
    assert [got.case for got in store.failures()] == ["3", "1"]


WRITER = """
import sys
from gpuemu_lsp.engine.fuzz.model import Case, CaseKey
from gpuemu_lsp.engine.store import Failure, Store
with Store(sys.argv[1]) as store:
    for i in range(20):
        store.record(Failure("k", "float32", "numeric/nan", "m", CaseKey(int(sys.argv[2]) * 1000 + i, "s")))
        store.record(Failure("k", "float32", "numeric/nan", "m", CaseKey(7, "s")))
"""


def test_concurrent_processes_share_the_file(tmp_path):
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, str(tmp_path), str(number)], cwd=ROOT) for number in range(1, 5)
    ]
    assert [writer.wait(60) for writer in writers] == [0] * 4
    with Store(tmp_path) as store:
        stored = store.failures(limit=1000)
    assert len(stored) == 4 * 20 + 1
    assert {got.case: got.times_seen for got in stored}["7"] == 80


def test_sizes_keep_the_order_of_gpuemu_toml(store):
    store.record(failure(dims={"rows": 3, "cols": 2}, key_dims={"rows": 3, "cols": 2}))
    (stored,) = store.failures()
    assert [*stored.failure.dims] == [*(stored.failure.key.dims or {})] == ["rows", "cols"]
