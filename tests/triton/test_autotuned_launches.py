"""Autotuned kernels that compute from their own results, which the autotuner's runs leave behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests import targets
from gpuemu_lsp.engine.subjects.request import CheckOptions

TWO = 'configs=[triton.Config({"BLOCK": 64}), triton.Config({"BLOCK": 32})], key=["n"]'
ONE = 'configs=[triton.Config({"BLOCK": 64})], key=["n"]'
ADD = "tl.atomic_add(y, tl.sum(tl.load(x + i, mask=i < n, other=0.0)))"
DOUBLE = "tl.store(y + i, 2.0 * tl.load(y + i, mask=i < n), mask=i < n)"
RELU = "tl.store(y + i, tl.maximum(tl.load(y + i, mask=i < n), 0.0), mask=i < n)"
COPY = "tl.store(y + i, tl.load(x + i, mask=i < n), mask=i < n)"


def autotuned_findings(folder: Path, tuning: str, body: str) -> list[Finding]:
    """Return the findings on the kernel of a module, none of which may be another error."""
    (folder / "gpuemu.toml").write_text(
        '[[kernels]]\nname = "work"\nsource = "model.py"\n[kernels.dims]\nn = { min = 1, max = 200 }\n[kernels.args]\n'
        'x = { in = ["n"] }\ny = { inout = ["n"] }\nn = "n"\n[kernels.launch]\ngrid = ["ceil_div(n, BLOCK)"]\n'
    )
    (folder / "model.py").write_text(
        "import triton\nimport triton.language as tl\n\n\ndef clear(arguments, **_):\n    arguments['y'].zero_()\n\n\n"
        f"@triton.autotune({tuning})\n@triton.jit\ndef work(x, y, n, BLOCK: tl.constexpr):\n"
        f"    i = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)\n    {body}\n"
    )
    requests = targets.collect([folder.as_posix()], CheckOptions(cases=2), folder).requests
    found = [event for request in requests for event in check_kernel(request) if isinstance(event, Finding)]
    named = [finding for finding in found if finding.rule == "memory/autotuned-in-place"]
    assert not [one for one in found if one.severity is Severity.ERROR and one not in named], found
    return named


@pytest.mark.parametrize("body", [ADD, DOUBLE])
def test_results_that_depend_on_earlier_runs_are_an_error(tmp_path: Path, body: str) -> None:
    (finding,) = autotuned_findings(tmp_path, TWO, body)
    assert "'y'" in finding.message and finding.place.range.start.line == 10


@pytest.mark.parametrize(
    ("tuning", "body"),
    [
        (f'{TWO}, reset_to_zero=["y"]', ADD),
        (f'{TWO}, restore_value=["y"]', DOUBLE),
        (f"{TWO}, pre_hook=clear", ADD),
        (ONE, ADD),
        (TWO, RELU),
        (TWO, COPY),
    ],
)
def test_arguments_that_are_restored_or_only_written_are_right(tmp_path: Path, tuning: str, body: str) -> None:
    assert not autotuned_findings(tmp_path, tuning, body)
