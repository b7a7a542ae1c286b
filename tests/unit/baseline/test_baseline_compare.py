"""Comparison of baseline records: regressions, improvements, changes, and incomparable cases."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuemu_lsp.engine.baseline.compare import compare
from gpuemu_lsp.engine.baseline.findings import regressions
from gpuemu_lsp.engine.baseline.saves import keep, since_baseline, since_previous
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.report.comparison import comparison_record, render_comparison
from gpuemu_lsp.engine.report.text import TextStyle
from gpuemu_lsp.engine.store import BaselineRecord, Store

NUMBERS = {"status": "passed", "cases_run": 32, "cases_passed": 32, "max_diff": 2e-6, "max_rel_diff": 4e-6}
RESOURCES = {
    "registers": 28,
    "spill_stores": 0,
    "spill_loads": 0,
    "stack_bytes": 0,
    "static_shared_bytes": 1024,
    "constant_bytes": 380,
    "barriers": 1,
}
ORIGIN = {
    "seed": "42",
    "cases": 32,
    "executor": "auto",
    "toolchain": "NVRTC 12.9",
    "source": "/p/k.cu",
    "source_hash": "a",
}
OLD = BaselineRecord("k", "float32", "sm_80", NUMBERS, RESOURCES, "", ORIGIN)


def changed(numbers=(), resources=(), origin=(), **more) -> BaselineRecord:
    return replace(
        OLD,
        numbers={**NUMBERS, **dict(numbers)},
        resources={**RESOURCES, **dict(resources)},
        origin={**ORIGIN, **dict(origin)},
        **more,
    )


def verdict(new: BaselineRecord, old: BaselineRecord = OLD, threshold: float = 0.1) -> str:
    (change,) = compare("v1", [old], [new], threshold).changes
    return change.verdict


@pytest.mark.parametrize(
    ("new", "expected"),
    [
        (changed(), "same"),
        (changed({"status": "failed"}), "regression"),
        (changed({"status": "error"}), "regression"),
        (changed({"status": "not-executed"}), "regression"),
        (changed({"max_rel_diff": 8.7e-6}), "regression"),
        (changed({"max_rel_diff": 4.3e-6}), "change"),
        (changed({"max_rel_diff": 2e-6}), "improvement"),
        (changed({"max_diff": 1.0}), "regression"),
        (changed(resources={"registers": 48}), "regression"),
        (changed(resources={"registers": 30}), "change"),
        (changed(resources={"registers": 20}), "improvement"),
        (changed(resources={"spill_stores": 4}), "regression"),
        (changed(resources={"spill_loads": 4}), "regression"),
        (changed(resources={"stack_bytes": 8}), "regression"),
        (changed(resources={"static_shared_bytes": 4096}), "change"),
        (changed({"max_rel_diff": 1e-3}, origin={"seed": "7"}), "change"),
        (changed({"status": "failed", "max_rel_diff": 1e-9}), "regression"),
    ],
)
def test_verdicts(new, expected):
    assert verdict(new) == expected


def test_improvements():
    assert verdict(OLD, changed({"status": "failed"})) == "improvement"
    assert verdict(OLD, changed(resources={"spill_stores": 4})) == "improvement"


def test_noise_and_threshold():
    exact = changed({"max_rel_diff": 0.0})
    assert verdict(changed({"max_rel_diff": 1e-7}), exact) == "change"
    assert verdict(changed({"max_rel_diff": 3e-7}), exact) == "regression"
    assert verdict(changed(resources={"registers": 29}), threshold=0.0) == "regression"
    assert verdict(changed(resources={"registers": 55}), threshold=1.0) == "change"


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([1e-7, 1.0, 2e-7], [1e-7, 1.0, 2e-7], "same"),
        ([1e-7, 1.0, 2e-7], [1e-7, 1.0, 1e-3], "regression"),
        ([1e-7, 1.0, 2e-7], [2e-7, 1.0, 1e-7], "same"),
        ([1e-7, 0.2, 2e-7], [1e-7, 1.0, 2e-7], "same"),
        ([1e-7, 1.0, 1e-3], [1e-7, 1.0, 2e-7], "improvement"),
        ([0.2, 1.0], [0.2, 1.0], "same"),
        ([1e-7, 2e-7], [1e-3], "change"),
    ],
)
def test_an_ill_conditioned_case_does_not_hide_others(before, after, expected):
    old, new = (changed({"errors": list(errors), "max_rel_diff": max(errors)}) for errors in (before, after))
    assert verdict(new, old) == expected


def test_different_cases_are_not_compared_and_differences_are_noted():
    (change,) = compare("v1", [OLD], [changed(origin={"cases": 8, "toolchain": "NVRTC 13.0"})]).changes
    assert any("toolchain: NVRTC 12.9 -> NVRTC 13.0" in note for note in change.notes)
    assert any("not compared" in note for note in change.notes)


def test_appeared_and_vanished_kernels():
    comparison = compare("v1", [OLD, replace(OLD, kernel="gone")], [OLD, replace(OLD, kernel="new")])
    assert {change.kernel: change.verdict for change in comparison.changes} == {
        "k": "same",
        "gone": "vanished",
        "new": "appeared",
    }


def test_a_kernel_that_no_longer_compiles_regresses_in_every_dtype():
    broken = BaselineRecord("k", "", "sm_80", {"status": "error"}, origin=ORIGIN)
    comparison = compare("v1", [OLD, replace(OLD, dtype="float16")], [broken])
    assert [(change.dtype, change.verdict) for change in comparison.changes] == [
        ("float16", "regression"),
        ("float32", "regression"),
    ]


def test_regressions_are_findings():
    new = changed({"status": "failed"}, {"registers": 48})
    found = regressions(compare("v1", [OLD], [new]), {}, Severity.ERROR)
    assert [(item.rule, item.severity) for item in found] == [
        ("numeric/regression", "error"),
        ("artifact/regression", "error"),
    ]
    assert found[1].data == {"baseline": "v1", "figure": "registers", "before": 28, "after": 48}
    assert regressions(compare("v1", [OLD], [OLD]), {}) == ()


def test_since_the_previous_save(tmp_path):
    with Store(tmp_path) as store:
        assert since_previous(store, "k") is None
        keep(store, "k", [OLD])
        keep(store, "k", [OLD])  # a second check of the same text is not a save
        assert since_previous(store, "k") is None
        keep(store, "k", [changed(resources={"registers": 48}, origin={"source_hash": "b"})])
        (change,) = since_previous(store, "k").changes
        assert (change.verdict, change.having("regression")[0].after) == ("regression", 48)
        keep(store, "k", [changed(resources={"registers": 48}, origin={"source_hash": "c"})])
        assert since_previous(store, "k").changes[0].verdict == "same"
        assert since_baseline(store, "k", "v1") is None
        store.store_baseline("v1", [OLD])
        assert since_baseline(store, "k", "v1").changes[0].verdict == "regression"
        assert store.baseline_tags()[0][0] == "v1" and len(store.baseline_tags()) == 1


def test_the_upgrade_of_a_library_is_shown_with_what_it_changed():
    old, new = ({"library": "flash-attn", "library_version": version} for version in ("2.3.0", "2.4.0"))
    before = [replace(OLD, kernel=name, arch="", origin={**ORIGIN, **old}) for name in ("attention", "rotary")]
    after = [replace(item, origin={**ORIGIN, **new}) for item in before]
    after[1] = replace(after[1], numbers={**NUMBERS, "max_diff": 1.0, "max_rel_diff": 0.5})
    comparison = compare("v1", before, after)
    text = render_comparison(comparison, "/p", TextStyle())
    assert "flash-attn 2.3.0 -> 2.4.0: 1 regressed, 1 unchanged" in text
    assert "rotary (float32): regression" in text
    assert "attention (" not in text
    assert [item.get("upgrade") for item in comparison_record(comparison, "/p")["kernels"]] == 2 * [
        "flash-attn 2.3.0 -> 2.4.0"
    ]
    assert "flash-attn" not in render_comparison(compare("v1", before, before), "/p", TextStyle())
