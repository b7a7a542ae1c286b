"""Planted bugs shrink to their known minimum from any case, and no smaller sizes fail.

This is a sample; ``python -m benchmarks.shrinking`` runs all bugs with 20 seeds, and ``--prove`` all minima.
"""

from __future__ import annotations

import pytest
from support.corpus import CORPUS, corpus_kernels

from benchmarks.shrinking import GOLDEN, RUNS, examine, smaller_failures, tomli

SPECS = {spec.name: spec for spec in corpus_kernels()}
KNOWN = tomli.loads(GOLDEN.read_text())
SLICE = (
    "gelu_buggy",
    "attention_buggy",
    "argmax_buggy",
    "byte_sum_buggy",
    "transpose_buggy",
    "vector_rows_buggy",
    "table_end_buggy",
    "row_softmax_buggy",
    "relay_buggy",
)

pytestmark = pytest.mark.quality


@pytest.mark.parametrize("name", SLICE)
def test_every_seed_ends_at_the_known_minimum(name: str) -> None:
    rows = examine(SPECS[name], CORPUS.as_posix(), range(11, 14))
    assert len(rows) == 3
    for row in rows:
        assert row.golden, row
        assert row.complete and row.runs < RUNS, row


@pytest.mark.parametrize("name", ["attention_buggy", "argmax_buggy", "vector_rows_buggy", "scan_buggy"])
def test_no_smaller_sizes_fail(name: str) -> None:
    for entry in KNOWN[name]:
        assert not smaller_failures(SPECS[name], CORPUS.as_posix(), entry, most=12)


def test_every_minimum_is_of_a_kernel_and_its_sizes() -> None:
    for name, entries in KNOWN.items():
        assert name in SPECS
        for entry in entries:
            assert set(entry["dims"]) == set(SPECS[name].dims)
