"""Roles of the parameters: from gpuemu.toml, else from the signature."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from gpuemu_lsp.engine.plan.context import KernelContext
from gpuemu_lsp.engine.plan.model import PlanResult, ScalarArg, TensorArg
from gpuemu_lsp.engine.plan.resolve import resolve, unregistered
from gpuemu_lsp.engine.plan.skeleton import template
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.source import read

_LAUNCH = '[kernels.launch]\ngrid = "ceil_div(n, 32)"\nblock = 32\n'


def _resolve(folder: Path, code: str, toml: str) -> PlanResult:
    (folder / "k.cu").write_text(code)
    (folder / "ref.py").write_text("def reference(inputs):\n    return inputs['x']\n")
    text = f'[[kernels]]\nname = "k"\nsource = "k.cu"\nreference = "ref.py"\n{toml}'
    (folder / "gpuemu.toml").write_text(text)
    project = load(str(folder / "gpuemu.toml"))
    assert not project.findings, project.findings
    return resolve(project.kernels[0], read(str(folder / "k.cu"), code, ()))


@pytest.mark.parametrize(
    ("signature", "roles"),
    [
        ("const float* a, float* b, int n", ["in float32 n", "out float32 n", "int32 n"]),
        (
            "const float* a, const __half* b, float* c, size_t n",
            ["in float32 n", "in float16 n", "out float32 n", "uint64 n"],
        ),
        ("const float4* a, float2* b, int n", ["in float32 4 * n", "out float32 2 * n", "int32 n"]),
        ("const float* a, float* b, int r, int c", ["in float32 ", "out float32 ", "int32 r", "int32 c"]),
        (
            "const float* a, float* b, float s, bool f, int n",
            ["in float32 n", "out float32 n", "float32 0.5", "bool True", "int32 n"],
        ),
    ],
)
def test_roles_from_a_signature(bare: Callable[[str], PlanResult], signature: str, roles: list[str]) -> None:
    """``const T*`` is an input, ``T*`` an output; one integer is the size of all, several need the probe."""
    host = "void f() { k<<<1, 32>>>(" + ", ".join(f"v{i}" for i in range(signature.count(",") + 1)) + "); }"
    (plan,) = bare(f"__global__ void k({signature}) {{}}\n{host}").plans
    found = []
    for arg in plan.args:
        if isinstance(arg, TensorArg):
            found.append(f"{arg.direction} {arg.dtype} {', '.join(map(str, arg.shape))}")
        else:
            found.append(f"{arg.dtype} {arg.value}")
    assert found == roles
    assert plan.inferred


@pytest.mark.parametrize(
    ("signature", "why"),
    [
        ("float** a, int n", "no values can be generated"),
        ("Params p", "no values can be generated"),
        ("int n", "no pointer parameter"),
        ("float* a", "no integer parameter"),
        ("float* a, float4 s, int n", "by value"),
    ],
)
def test_signatures_that_cannot_be_inferred(bare: Callable[[str], PlanResult], signature: str, why: str) -> None:
    """An unregistered kernel has a hint with the reason, and no error."""
    result = bare(f"struct Params {{ int a; }};\n__global__ void k({signature}) {{}}")
    assert not result.plans
    (finding,) = result.findings
    assert (finding.rule, finding.severity) == ("engine/not-executed", "hint")
    assert why in finding.message


def test_configured_arguments(tmp_path: Path) -> None:
    """Directions, reference names, ranges and values of gpuemu.toml; a dim is the value of its parameter."""
    code = "__global__ void k(const int* idx, const float* x, float* y, float eps, int n) {}"
    toml = f"""[kernels.dims]
n = {{ min = 1, max = 9 }}
[kernels.args]
idx = {{ in = ["n"], range = [0, "n"] }}
x = {{ in = ["n", 4], as = "logits" }}
y = {{ inout = ["n"] }}
eps = 1e-5
{_LAUNCH}"""
    (plan,) = _resolve(tmp_path, code, toml).plans
    idx, x, y, eps, n = plan.args
    assert isinstance(idx, TensorArg) and idx.range is not None
    assert isinstance(x, TensorArg) and (x.key, len(x.shape)) == ("logits", 2)
    assert isinstance(y, TensorArg) and y.direction == "inout"
    assert isinstance(eps, ScalarArg) and eps.value == 1e-5
    assert isinstance(n, ScalarArg) and str(n.value) == "n"
    assert not plan.inferred


@pytest.mark.parametrize(
    ("args", "rule", "message"),
    [
        ('x = { in = ["n"] }\nz = { out = ["n"] }\ny = { out = ["n"] }', "config/unknown-key", "It has: x, y, n"),
        ('x = { out = ["n"] }\ny = { out = ["n"] }', "config/bad-value", "const"),
        ('x = { in = ["n"] }\ny = 1.0', "config/bad-value", "pointer"),
        ('x = { in = ["n"], dtype = "float64" }\ny = { out = ["n"] }', "numeric/dtype-mismatch", "float32"),
        ('x = { in = ["n"] }\ny = { out = ["n"], as = "x" }', "config/bad-value", "rename"),
        ('x = { in = ["n"] }\ny = { out = ["n"] }\nn = 1.5', "config/bad-value", "whole"),
        ('x = { in = ["n"] }', "config/ambiguous-signature", "also takes y"),
    ],
)
def test_mistakes_in_the_arguments(tmp_path: Path, args: str, rule: str, message: str) -> None:
    """Each is one finding with the correction."""
    code = "__global__ void k(const float* x, float* y, int n) {}"
    toml = f"[kernels.dims]\nn = {{ min = 1, max = 9 }}\n[kernels.args]\n{args}\n{_LAUNCH}"
    result = _resolve(tmp_path, code, toml)
    assert not result.plans
    assert rule in [finding.rule for finding in result.findings]
    assert message in " ".join(finding.message for finding in result.findings)


@pytest.mark.parametrize(
    "signature",
    [
        "const float* x, float* y, float s, int n",
        "const float* x, const int* idx, double* y, double s, bool f, long rows, int cols",
        "const __half* x, float* y, __half s, unsigned n",
        "float* y, float s, int n",
    ],
)
def test_the_entry_in_the_message_can_be_pasted(tmp_path: Path, signature: str) -> None:
    """The message is complete and valid: pasted as it is, the kernel has a plan."""
    code = f"__global__ void k({signature}) {{}}"
    result = _resolve(tmp_path, code, "")
    assert not result.plans
    (finding,) = result.findings
    assert finding.rule == "config/ambiguous-signature"
    pasted = finding.message.split("Add to gpuemu.toml:\n", 1)[1]
    source = read(str(tmp_path / "k.cu"), code, ())
    context = KernelContext(unregistered(source, source.kernels[0]), source.kernels[0], source)
    assert template(context).endswith(pasted)
    again = _resolve(tmp_path, code, pasted)
    assert len(again.plans) == 1 and not again.findings


@pytest.mark.parametrize(
    "args", ['[kernels.args]\nx = { in = ["n"] }\ny = { out = ["n"] }\n', ""], ids=["given", "inferred"]
)
@pytest.mark.parametrize(("type_", "most"), [("int", 2**31 - 1), ("unsigned", 2**32 - 1), ("short", 2**15 - 1)])
def test_sizes_that_the_parameter_cannot_hold(tmp_path: Path, args: str, type_: str, most: int) -> None:
    code = f"__global__ void k(const float* x, float* y, {type_} n) {{}}"
    scalar = 'n = "n"\n' if args else ""
    for maximum, expected in ((most, []), (most + 1, ["config/bad-value"])):
        dims = f"[kernels.dims]\nn = {{ min = 1, max = {maximum} }}\n"
        found = _resolve(tmp_path, code, f"{dims}{args}{scalar}{_LAUNCH}")
        assert [finding.rule for finding in found.findings] == expected
        if expected:
            (finding,) = found.findings
            assert f"does not fit `{type_} n`" in finding.message and finding.place.path.endswith("gpuemu.toml")
            assert not found.plans


def test_a_number_that_the_parameter_cannot_hold(tmp_path: Path) -> None:
    code = "__global__ void k(const float* x, float* y, int n, int m) {}"
    toml = '[kernels.dims]\nn = 5\n[kernels.args]\nx = { in = ["n"] }\ny = { out = ["n"] }\nn = "n"\nm = 3000000000\n'
    (finding,) = _resolve(tmp_path, code, toml + _LAUNCH).findings
    assert finding.rule == "config/bad-value" and "does not fit `int m`" in finding.message


@pytest.mark.parametrize(
    "args", ["", '[kernels.args]\ny = { out = ["n"] }\nn = "n"\nt = 1\n'], ids=["inferred", "configured"]
)
@pytest.mark.parametrize("kind", ["Texture", "Surface"])
def test_a_texture_parameter_was_not_run_for_that_reason(tmp_path: Path, kind: str, args: str) -> None:
    code = f"__global__ void k(cuda{kind}Object_t t, float* y, int n) {{ y[0] = n; }}\n"
    (finding,) = _resolve(tmp_path, code, "[kernels.dims]\nn = { max = 8 }\n" + args + _LAUNCH).findings
    assert (finding.rule, finding.severity) == ("engine/not-executed", "warning")
    assert f"'t' is a {kind.lower()} object" in finding.message
    assert "gpuemu.toml" not in finding.message
