"""Resource limits against ptxas' report, and the artifact report."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.lint_artifacts import PATH, built, findings, report, shown, spec_of, toml_place

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.lint import lint
from gpuemu_lsp.engine.project.model import ArtifactChecks

HEAVY = (
    "#pragma nv_diag_suppress 550\n"
    "__global__ void __launch_bounds__(1024, 2) k(float* x) {\n  float a[48];\n#pragma unroll\n"
    "  for (int i = 0; i < 48; ++i) a[i] = x[i * 1024 + threadIdx.x];\n  __syncthreads();\n#pragma unroll\n"
    "  for (int i = 0; i < 48; ++i) x[i * 1024 + threadIdx.x] = a[i] * a[(i * 7 + 5) % 48] + a[47 - i];\n}\n"
)
LIGHT = (
    "__device__ float gelu_forward(float x) { return x / (1.f + x * x); }\n"
    "template <typename T> __global__ void fused_gelu(const T* x, T* y) { y[threadIdx.x] = gelu_forward(x[threadIdx.x]); }\n"
)


def usage(text: str, expression: str):
    artifact, _ = built(text, expression)
    return artifact.resources[artifact.entries[expression]]


def test_spills_are_stores_and_loads_in_bytes() -> None:
    real = usage(HEAVY, "k")
    assert real.spill_stores > 0 and real.stack_bytes > 0
    spills, local = findings(HEAVY, ArtifactChecks(max_registers=real.registers))
    assert (spills.rule, local.rule) == ("artifact/spills", "artifact/local-memory")
    assert spills.data["value"] == real.spill_stores + real.spill_loads
    assert (spills.data["stores"], spills.data["loads"]) == (real.spill_stores, real.spill_loads)
    assert local.data == {"value": real.stack_bytes, "limit": 0, "instance": "k"}
    assert shown(HEAVY, spills.place) == "k"
    assert spills.severity is Severity.ERROR


@pytest.mark.parametrize("slack", [0, -1])
def test_a_limit_is_inclusive(slack: int) -> None:
    registers = usage(LIGHT, "fused_gelu<float>").registers
    found = findings(LIGHT, ArtifactChecks(max_registers=registers + slack), "fused_gelu<float>")
    assert [finding.rule for finding in found] == ["artifact/registers"] * (slack < 0)
    for finding in found:
        assert shown(LIGHT, finding.place) == "fused_gelu"
        assert (finding.data["value"], finding.data["limit"]) == (registers, registers - 1)
        message = f"'fused_gelu<float>' uses {registers} registers per thread on sm_80; the limit is {registers - 1}"
        assert finding.message == message


def test_no_findings_without_configuration() -> None:
    assert findings(HEAVY, None) == ()


def test_a_finding_points_at_the_limit_in_the_configuration() -> None:
    artifact, source = built(LIGHT, "fused_gelu<float>")
    places = {"artifact_checks": toml_place(3), "artifact_checks.max_registers": toml_place(4)}
    places["artifact_checks.required_patterns.1"] = toml_place(6)
    checks = ArtifactChecks(max_registers=1, required_patterns=("gelu_forward", "absent"), forbidden_patterns=("div",))
    spec = spec_of(checks, places=places)
    found = lint(artifact, artifact.entries["fused_gelu<float>"], spec, source)
    assert [(finding.rule, finding.related[0].place.range.start.line) for finding in found] == [
        ("artifact/registers", 4),
        ("artifact/required-pattern", 6),
        ("artifact/forbidden-pattern", 3),
    ]


def test_findings_are_on_the_right_overload() -> None:
    text = "__global__ void k(float* x) { x[0] = 1; }\n\n__global__ void k(double* x) { x[0] = 1; }\n"
    artifact, source = built(text, "(void (*)(double*))k")
    (entry,) = artifact.entries.values()
    (finding,) = lint(artifact, entry, spec_of(ArtifactChecks(max_registers=0)), source)
    assert finding.place.range.start.line == 2


def test_checks_that_cannot_be_made_are_reported() -> None:
    artifact, source = built(LIGHT, "fused_gelu<float>")
    entry = artifact.entries["fused_gelu<float>"]
    spec = spec_of(ArtifactChecks(required_patterns=("fma",)))
    (finding,) = lint(replace(artifact, resources={}, ptx=artifact.ptx), entry, replace_checks(spec), source)
    assert finding.rule == "engine/not-executed" and "limits" in finding.message
    unreadable = lint(replace(artifact, ptx=artifact.ptx[:-40]), entry, spec, source)
    assert [finding.rule for finding in unreadable] == ["engine/not-executed"]
    (finding,) = lint(artifact, "absent", replace_checks(spec), source)[-1:]
    assert finding.rule == "engine/not-executed"


def replace_checks(spec):
    return replace(spec, artifact_checks=ArtifactChecks())


def test_report_of_a_passing_kernel() -> None:
    real = usage(LIGHT, "fused_gelu<float>")
    checks = ArtifactChecks(32, 0, 0, ("gelu_forward", "fma.rn.f32"), ("__syncthreads",))
    assert report(LIGHT, checks, "fused_gelu<float>") == (
        "Kernel: fused (fused_gelu<float>)",
        f"Registers: {real.registers} / 32 (max) OK",
        "Spills: 0 / 0 (max) OK",
        "Local memory: 0 / 0 (max) OK",
        "Required: gelu_forward FOUND",
        "Required: fma.rn.f32 FOUND",
        "Forbidden: __syncthreads NOT FOUND (good)",
        "Result: PASS",
    )


@pytest.mark.parametrize(
    ("checks", "line", "result"),
    [
        (ArtifactChecks(max_registers=1), "Registers: {registers} / 1 (max) EXCEEDED", "FAIL"),
        (ArtifactChecks(required_patterns=("printf",)), "Required: printf NOT FOUND", "FAIL"),
        (ArtifactChecks(forbidden_patterns=("div",)), "Forbidden: div FOUND (line 1)", "FAIL"),
        (
            ArtifactChecks(required_patterns=("HMMA",)),
            "Required: HMMA NOT CHECKED (not a PTX instruction)",
            "INCOMPLETE",
        ),
        (None, "Registers: {registers} (no limit)", "NO CHECKS CONFIGURED"),
    ],
)
def test_report_of_failed_checks(checks: ArtifactChecks | None, line: str, result: str) -> None:
    lines = report(LIGHT, checks, "fused_gelu<float>")
    assert line.format(registers=usage(LIGHT, "fused_gelu<float>").registers) in lines
    assert lines[-1] == f"Result: {result}"
    assert PATH not in "".join(lines)
