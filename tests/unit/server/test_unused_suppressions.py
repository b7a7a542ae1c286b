"""Suppression comments that suppressed nothing: reported after a check of all kernels that ran."""

from __future__ import annotations

import pytest
from support.server_kernels import GOOD, STORE_LINE

from gpuemu_lsp.engine.findings import Place, Range, Severity
from gpuemu_lsp.engine.rules import make


def with_comment(rule: str) -> str:
    return GOOD.replace("x[i];", f"x[i];  // gpuemu: ignore[{rule}]")


@pytest.mark.parametrize(
    ("rule", "status", "expected"),
    [
        ("numeric/nan", "passed", ["config/unused-suppression"]),
        ("numeric/nan", "not-executed", []),
        ("memory/shared-race", "passed", []),  # unoptimised code alone may have it
        ("numeric/nonsense", "passed", []),  # the engine reports it
    ],
)
async def test_a_suppression_is_unused_only_after_every_kernel_has_run(harness, rule, status, expected):
    harness.open(with_comment(rule))
    (job,) = await harness.until(1)
    await job.finish(harness.report(status))
    assert harness.published()[-1] == expected


async def test_a_used_suppression_is_not_reported(harness):
    harness.open(with_comment("numeric/nan"))
    (job,) = await harness.until(1)
    place = Place(harness.path, Range.of(STORE_LINE, 8, STORE_LINE, 9))
    await job.finish(make("numeric/nan", "x", place, severity=Severity.HINT, data={"ignored": True}), harness.report())
    assert harness.published()[-1] == []
