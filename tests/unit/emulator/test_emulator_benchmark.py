"""The emulator's benchmark runs and computes its means; times are not checked."""

from __future__ import annotations

import pytest

from benchmarks.emulator import MODES, geometric_means, measure


def test_one_kernel_without_peers() -> None:
    result = measure(1, ["reduction"], peers=False)
    (row,) = result["kernels"]
    assert row["name"] == "reduction"
    assert all(row[name] > 0 for name in (*MODES, "translate_ms"))
    assert row["native_ms"] is None
    assert result["geometric_means"]["native / unchecked"] is None


def test_geometric_mean() -> None:
    rows = [{"native_ms": 8.0, "unchecked_ms": 1.0}, {"native_ms": 1.0, "unchecked_ms": 2.0}]
    padded = [dict.fromkeys(("memory_ms", "race_ms", "pocl_ms", "pocl_translate_ms", "translate_ms")) | r for r in rows]
    assert geometric_means(padded)["native / unchecked"] == pytest.approx(2.0)
