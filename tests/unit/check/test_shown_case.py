"""The case that a finding shows: the smallest known one that fails, the same in every check until it passes."""

from __future__ import annotations

from pathlib import Path

from support.check_project import CU, TOML, request, run

from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.store import Store

# Fails for every size from 70 to 900; the first failing case of a check is not the smallest.
WRONG = CU.replace("2.0f *", "(n >= 70 && n < 900 && i == 69 ? 3.0f : 2.0f) *")
SIZES = TOML + "[kernels.dims]\nn = { min = 1, max = 2000 }\n"


def shown(folder: Path, cu: str, **options) -> list[Finding]:
    found = run(request(folder, cu, toml=SIZES, store_root=str(folder), **options))[1]
    return [finding for finding in found if finding.severity is Severity.ERROR]


def test_the_smallest_failing_case_is_shown_from_the_first_check_on(tmp_path: Path) -> None:
    for seed in range(4):
        folder = tmp_path / str(seed)
        folder.mkdir()
        cases = []
        for _ in range(4):
            (error,) = shown(folder, WRONG, seed=seed, seed_given=True)
            cases.append((error.case, error.dims["n"]))
        stored = [failure.failure.dims["n"] for failure in Store(folder).failures()]
        assert len(set(cases)) == 1 and len(stored) > 1
        assert cases[0][1] == min(stored)


def test_the_next_larger_case_is_shown_once_the_smallest_passes(tmp_path: Path) -> None:
    (first,) = shown(tmp_path, WRONG)
    stored = sorted(failure.failure.dims["n"] for failure in Store(tmp_path).failures())
    rest = WRONG.replace("n >= 70", f"n > {stored[0]}")
    (second,) = shown(tmp_path, rest)
    # A case that the first check did not come to may be smaller than what it stored.
    assert first.dims["n"] == stored[0] < second.dims["n"] <= stored[1]
    assert shown(tmp_path, rest)[0].case == second.case


def test_an_error_of_a_larger_case_is_not_missing_while_smaller_ones_fail(tmp_path: Path) -> None:
    """More stored cases fail than end a check, and only the largest shows the other error."""
    shown(tmp_path, WRONG, cases=64, max_failures=6)
    largest = max(failure.failure.dims["n"] for failure in Store(tmp_path).failures())
    both = WRONG.replace("}\n", f"    if (n == {largest} && i == 0) y[n] = 0.0f;\n}}\n", 1)
    rules = [{finding.rule for finding in shown(tmp_path, both)} for _ in range(2)]
    assert rules[0] == rules[1] == {"numeric/tolerance-exceeded", "memory/out-of-bounds"}
