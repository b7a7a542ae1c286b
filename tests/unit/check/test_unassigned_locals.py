"""Locals that are used before a value is assigned to them, and correct code that looks like it."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.check_project import TOML, request, run

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

HEAD = "__global__ void k({T}* x, {T}* y, int n) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
RULES = ("memory/uninitialized-read", "compile/warning")


def found(folder: Path, body: str, kind: str = "float") -> list[Finding]:
    """Check an unregistered kernel; return the findings about its locals."""
    (folder / "k.cu").write_text(HEAD.replace("{T}", kind) + body + "}\n")
    (made,) = collect([str(folder / "k.cu")], CheckOptions(cases=2), folder).requests
    return [one for one in check_kernel(made) if isinstance(one, Finding) and one.rule in RULES]


LOOP = "    {T} sum;\n    for (int j = 0; j < 4; j++) sum += x[(i + j) % n];\n    if (i < n) y[i] = sum;\n"


@pytest.mark.parametrize("kind", ["float", "double", "int", "unsigned long long"])
def test_an_accumulator_without_a_value_is_a_warning_on_its_use(tmp_path: Path, kind: str) -> None:
    (warning,) = found(tmp_path, LOOP.replace("{T}", kind), kind)
    assert (warning.rule, warning.severity) == ("memory/uninitialized-read", Severity.WARNING)
    assert "`sum` is used uninitialized" in warning.message
    span = warning.place.range
    line = (tmp_path / "k.cu").read_text().split("\n")[span.start.line]
    assert (span.start.line, line[span.start.column : span.end.column]) == (3, "sum")


@pytest.mark.parametrize(
    "body",
    [
        "    float a, b;\n    while (i < n) { b += x[i]; i += 32; }\n    a = b;\n    if (n > 3) y[0] = a;\n",
        "    int count;\n    for (int j = 0; j < n; j++) if (x[j] > 0) count++;\n    if (i < n) y[i] = count;\n",
    ],
)
def test_other_uses_before_any_assignment(tmp_path: Path, body: str) -> None:
    (warning,) = found(tmp_path, body)
    assert warning.rule == "memory/uninitialized-read"


def test_what_the_compiler_reports_is_not_reported_twice(tmp_path: Path) -> None:
    (warning,) = found(tmp_path, "    float sum;\n    if (i < n) y[i] = sum + x[i];\n")
    assert (warning.rule, "used before its value is set" in warning.message) == ("compile/warning", True)


@pytest.mark.parametrize(
    "body",
    [
        LOOP.replace("{T} sum", "float sum = 0"),
        # One lane has the value, the others only pass the register on.
        "    int b;\n    if (threadIdx.x % 32 == 0) b = atomicAdd((int*)x, 32);\n"
        "    b = __shfl_sync(~0u, b, 0);\n    if (i < n) y[i] = b;\n",
        # The first iteration assigns, the later ones use.
        "    float last;\n    for (int j = i; j < n; j++) { if (j > i) y[j] = x[j] - last; last = x[j]; }\n",
        "    float last;\n    for (int j = i; j < n; j++) {\n        if (j == i) { last = x[0]; continue; }\n"
        "        y[j] = last + 1;\n        last = x[j];\n    }\n",
        "    float last;\n    bool any = false;\n    for (int j = i; j < n; j += 32) {\n"
        "        y[j] = any ? last + x[j] : x[j];\n        last = x[j];\n        any = true;\n    }\n",
        # Assigned through a reference, a pointer or inline assembly.
        "    float s, c;\n    sincosf(x[0], &s, &c);\n    if (i < n) y[i] = s + c;\n",
        '    float r;\n    asm("mov.f32 %0, %1;" : "=f"(r) : "f"(x[0]));\n    if (i < n) y[i] = r + 1;\n',
        "    float v;\n    switch (n) { case 1: v = 1; break; case 2: v = 2; break; default: v = 3; }\n"
        "    if (i < n) y[i] = v * x[i];\n",
        "    float v;\n    if (n > 4) v = 2; else v = 3;\n    if (i < n) y[i] = v * x[i];\n",
    ],
)
def test_locals_that_have_a_value_where_it_matters_are_not_reported(tmp_path: Path, body: str) -> None:
    assert found(tmp_path, body) == []


def test_a_registered_kernel_fails_by_its_numbers_and_names_the_local(tmp_path: Path) -> None:
    cu = (
        "__global__ void twice(const float* x, float* y, int n) {\n    int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
    )
    cu += "    float sum;\n    if (i < n) {\n        for (int j = 0; j < 2; j++) sum += x[i];\n        y[i] = sum;\n    }\n}\n"
    report, findings, _ = run(request(tmp_path, cu, toml=TOML, cases=3))
    rules = {(one.rule, one.severity) for one in findings}
    assert report.status == "failed" and ("memory/uninitialized-read", Severity.WARNING) in rules
