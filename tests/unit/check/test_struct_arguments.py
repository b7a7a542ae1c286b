"""Kernels that take structs by value, configured field by field, with the real compiler and emulator."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from support.check_project import request, run

from gpuemu_lsp.engine.findings import Finding

CU = """\
struct Range { int n; bool on; };
template <typename T> struct Params { const T* x; T* y; Range r; float w[2]; float4 v; int* unused; };
template <typename T> __global__ void twice(Params<T> p, float extra) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < p.r.n && p.r.on) p.y[i] = p.x[i] * p.w[0] + p.w[1] + p.v.z + extra;
}
"""
REFERENCE = """\
def reference(inputs, n, **kwargs):
    assert inputs["w"].shape == (2,) and inputs["on"] is True and "z" in inputs
    assert n == inputs["p.r.n"] == inputs["x"].size
    return inputs["p.x"] * inputs["p.w"][0] + inputs["w"][1] + inputs["p.v.z"] + inputs["extra"]
"""
HEAD = """\
[[kernels]]
name = "twice"
source = "twice.cu"
reference = "twice.py"
entry = "twice<float>"
[kernels.dims]
n = { max = 300 }
[kernels.launch]
grid = "ceil_div(n, 128)"
block = 128
[kernels.args]
extra = 0.25
"""
QUOTED = """\
"p.x" = { in = ["n"] }
"p.y" = { out = ["n"] }
"p.r.n" = "n"
"p.r.on" = true
"p.w[0]" = 2.0
"p.w" = 0.5
"p.v.x" = 1
"p.v.y" = 2
"p.v.z" = 3
"p.v.w" = 4
"p.unused" = 0
"""
DOTTED = QUOTED.replace('"p.w[0]"', "#w0").replace('"p.', "p.").replace('" =', " =").replace("#w0", '"p.w[0]"')
NESTED = """\
[kernels.args.p]
x = { in = ["n"] }
y = { out = ["n"] }
r = { n = "n", on = true }
"w[0]" = 2.0
w = 0.5
v = { x = 1, y = 2, z = 3, w = 4 }
unused = 0
"""


def check(folder: Path, args: str = QUOTED, cu: str = CU) -> tuple[str, list[Finding]]:
    report, findings, _ = run(request(folder, cu, REFERENCE, HEAD + args, cases=6))
    return report.status, findings


@pytest.mark.parametrize("args", [QUOTED, DOTTED, NESTED, QUOTED.replace('"p.r.n" = "n"\n', "")])
def test_a_correct_kernel_with_a_struct_passes(tmp_path: Path, args: str) -> None:
    assert check(tmp_path, args) == ("passed", [])


@pytest.mark.parametrize(
    ("old", "new", "rule", "says"),
    [
        ("p.w[1] +", "p.w[0] +", "numeric/tolerance-exceeded", "p.y["),
        ("i < p.r.n", "i <= p.r.n", "memory/out-of-bounds", "p.x["),
        ("p.y[i] = p.x[i]", "p.y[i] = p.y[i]", "memory/uninitialized-read", "p.y["),
        ("p.y[i] = p.x[i] *", "p.y[0] = p.x[i]; p.y[i] = p.x[i] *", "memory/global-race", "p.y["),
        ("+ extra", "+ p.unused[i]", "memory/null-pointer", "null"),
    ],
)
def test_a_planted_bug_names_the_field(tmp_path: Path, old: str, new: str, rule: str, says: str) -> None:
    assert old in CU
    status, findings = check(tmp_path, cu=CU.replace(old, new))
    matching = [one for one in findings if one.rule == rule]
    assert status == "failed" and matching, findings
    assert says in matching[0].message and matching[0].place.range.start.line == 4


@pytest.mark.parametrize(
    ("old", "new", "rule", "says"),
    [
        ('"p.r.on"', '"p.r.onn"', "config/unknown-key", "Did you mean 'p.r.on'?"),
        ('"p.w" =', '"p.w[2]" =', "config/unknown-key", "no field 'w[2]'"),
        ('"p.r.n" = "n"', '"p.r.n" = 3000000000', "config/bad-value", "3000000000 does not fit `int p.r.n`"),
        ('"p.x" = { in', '"p.x" = { out', "config/bad-value", "'p.x' points to const"),
        ('"p.v.x" = 1', '"p.v.x" = { in = ["n"] }', "config/bad-value", "passed by value"),
        ('"p.y" = { out = ["n"] }', '"p.y" = 1.5', "config/bad-value", "'p.y' is a pointer"),
        ('"p.v.w" = 4\n', "", "config/ambiguous-signature", "also takes p.v.w"),
        (QUOTED, "p = 1.0\n", "config/bad-value", "'p' is a Params passed by value; set its fields"),
    ],
)
def test_a_wrong_field_is_reported_on_its_key(tmp_path: Path, old: str, new: str, rule: str, says: str) -> None:
    assert old in QUOTED
    args = QUOTED.replace(old, new)
    status, findings = check(tmp_path, args)
    assert status in ("error", "not-executed")
    (finding,) = findings
    assert finding.rule == rule and says in finding.message
    if new:
        line = (HEAD + args).split("\n").index(next(row for row in args.split("\n") if new.strip() in row))
        assert (Path(finding.place.path).name, finding.place.range.start.line) == ("gpuemu.toml", line)


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        (
            "struct Range {",
            "struct Range { int bits : 3;",
            "its field `r` is a Range: it has the bit-field `int bits : 3`",
        ),
        ("struct Range { int n; bool on; }", "union Range { int n; bool on; }", "it is a union"),
    ],
)
def test_a_struct_without_a_known_layout_is_reported_on_its_first_key(
    tmp_path: Path, old: str, new: str, says: str
) -> None:
    status, findings = check(tmp_path, cu=CU.replace(old, new))
    assert status == "error"
    assert {one.rule for one in findings} == {"config/bad-value"} and says in findings[0].message
    assert findings[0].place.range.start.line == HEAD.count("\n")


def test_a_struct_of_another_size_than_in_the_compiled_code_is_not_run(tmp_path: Path) -> None:
    packed = "#pragma pack(push, 1)\n" + CU.replace("struct Range { int n;", "struct Range { char c; int n;")
    status, findings = check(tmp_path, QUOTED + '"p.r.c" = 1\n', packed)
    assert status == "not-executed"
    (finding,) = [one for one in findings if one.rule == "engine/not-executed"]
    assert "the struct 'p' has" in finding.message and "bytes in the compiled code" in finding.message


def test_a_failing_case_is_reproduced_by_the_standalone_script(tmp_path: Path) -> None:
    request(tmp_path, CU.replace("p.w[1] +", "p.w[0] +"), REFERENCE, HEAD + QUOTED)
    checked = command(tmp_path, "gpuemu_lsp.cli.main", "--check", "twice", "--cases", "3", "--format", "json")
    case = json.loads(checked.stdout)["findings"][0]["case"]
    assert command(tmp_path, "gpuemu_lsp.cli.gpuemu", "reproduce", case, "--script", "again.py").returncode == 1
    again = subprocess.run([sys.executable, "again.py"], cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 1 and "p.y[" in again.stdout, again
    # The correct PTX passes on the same data.
    (tmp_path / "twice.cu").write_text(CU)
    command(tmp_path, "gpuemu_lsp.cli.gpuemu", "lint", "-k", "twice", "--emit-ptx", "right.ptx")
    right = [sys.executable, "again.py", "right.ptx"]
    again = subprocess.run(right, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert again.returncode == 0, again


def command(folder: Path, module: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run one of the commands in a folder."""
    whole = [sys.executable, "-m", module, *arguments]
    return subprocess.run(whole, cwd=folder, capture_output=True, text=True, check=False)
