"""Ops in PyTorch: twenty correct functions without a finding, and as many with a planted error, all of them found."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

HEAD = "import math\nimport torch\nimport torch.nn.functional as F\n\n\n"
DIMS = "rows = { max = 24 }\ncols = { min = 2, max = 130 }\n"
X = 'x = { in = ["rows", "cols"] }\n'
Y = 'y = { out = ["rows", "cols"] }\n'
W = 'w = { in = ["cols"] }\n'


@dataclass(frozen=True)
class Op:
    """A correct function, what an error replaces in it, the reference, and the arguments."""

    body: str
    right: str
    wrong: str
    reference: str
    args: str = X + Y
    dims: str = DIMS
    parameters: str = "x"


OPS = {
    "softmax": Op("return torch.softmax(x, -1)", "softmax(x,", "softmax(1.01 * x,", "torch.softmax(x, -1)"),
    "log_softmax": Op(
        "return x - torch.logsumexp(x, -1, keepdim=True)", "x - torch", "torch", "torch.log_softmax(x, -1)"
    ),
    "layer_norm": Op(
        "m = x.mean(-1, keepdim=True)\n    v = x.var(-1, keepdim=True, unbiased=False)\n"
        "    return (x - m) * torch.rsqrt(v + 1e-5) * w",
        "unbiased=False",
        "unbiased=True",
        "F.layer_norm(x, (x.shape[-1],), w)",
        X + W + Y,
        parameters="x, w",
    ),
    "rms_norm": Op(
        "return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * w",
        ".mean(",
        ".sum(",
        "x / torch.sqrt((x * x).mean(-1, keepdim=True) + 1e-6) * w",
        X + W + Y,
        parameters="x, w",
    ),
    "gelu": Op("return 0.5 * x * (1 + torch.erf(x / math.sqrt(2)))", "(1 +", "(1 -", "F.gelu(x)"),
    "gelu_tanh": Op(
        "return 0.5 * x * (1 + torch.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))",
        "x + 0.044715 * x**3",
        "x",
        "F.gelu(x, approximate='tanh')",
    ),
    "silu": Op("return x * torch.sigmoid(x)", "sigmoid(x)", "sigmoid(-x)", "F.silu(x)"),
    "swiglu": Op(
        "return F.silu(x) * z", "* z", "+ z", "F.silu(x) * z", X + X.replace("x", "z", 1) + Y, parameters="x, z"
    ),
    "leaky_relu": Op("return torch.where(x > 0, x, 0.01 * x)", "0.01", "0.1", "F.leaky_relu(x, 0.01)"),
    "huber": Op(
        "d = (x - z).abs()\n    return torch.where(d < 1, 0.5 * d * d, d - 0.5)",
        "d - 0.5",
        "d",
        "F.smooth_l1_loss(x, z, reduction='none')",
        X + X.replace("x", "z", 1) + Y,
        parameters="x, z",
    ),
    "cross_entropy": Op(
        "return -(torch.log_softmax(x, -1).gather(1, t[:, None])[:, 0])",
        "return -",
        "return ",
        "F.cross_entropy(x, t.long(), reduction='none')",
        X + 't = { in = ["rows"], dtype = "int64", range = [0, "cols"] }\ny = { out = ["rows"] }\n',
        parameters="x, t",
    ),
    "attention": Op(
        "s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])\n    return torch.softmax(s, -1) @ v",
        " / math.sqrt(q.shape[-1])",
        "",
        "torch.softmax(q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]), -1) @ v",
        "".join(f'{name} = {{ {way} = ["b", "s", "d"] }}\n' for name, way in
                (("q", "in"), ("k", "in"), ("v", "in"), ("y", "out"))),
        "b = { max = 3 }\ns = { max = 40 }\nd = { max = 33 }\n",
        "q, k, v",
    ),
    "causal_attention": Op(
        "return F.scaled_dot_product_attention(q, k, v, is_causal=True)",
        "is_causal=True",
        "is_causal=False",
        "torch.softmax((q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1]))"
        ".masked_fill(torch.ones(q.shape[1], q.shape[1]).triu(1).bool(), -math.inf), -1) @ v",
        "".join(f'{name} = {{ {way} = ["b", "s", "d"] }}\n' for name, way in
                (("q", "in"), ("k", "in"), ("v", "in"), ("y", "out"))),
        "b = { max = 3 }\ns = { max = 40 }\nd = { max = 33 }\n",
        "q, k, v",
    ),
    "linear": Op(
        "return x @ w.T + b",
        " + b",
        "",
        "F.linear(x, w, b)",
        X + 'w = { in = ["out", "cols"] }\nb = { in = ["out"] }\ny = { out = ["rows", "out"] }\n',
        DIMS + "out = { max = 40 }\n",
        "x, w, b",
    ),
    "cumsum": Op("return torch.cumsum(x, -1)", "-1)", "0)", "torch.cumsum(x, 1)"),
    "rope": Op(
        "h = x.shape[-1] // 2\n    a, b = x[..., :h], x[..., h:]\n"
        "    return torch.cat([a * c - b * s, b * c + a * s], -1)",
        "a * c - b * s",
        "a * c + b * s",
        "torch.cat([x[..., : x.shape[-1] // 2] * c - x[..., x.shape[-1] // 2 :] * s, "
        "x[..., x.shape[-1] // 2 :] * c + x[..., : x.shape[-1] // 2] * s], -1)",
        'x = { in = ["rows", "2 * half"] }\nc = { in = ["rows", "half"] }\ns = { in = ["rows", "half"] }\n'
        'y = { out = ["rows", "2 * half"] }\n',
        "rows = { max = 20 }\nhalf = { max = 33 }\n",
        "x, c, s",
    ),
    "normalize": Op(
        "return x / x.norm(dim=-1, keepdim=True).clamp_min(1e-12)", "dim=-1", "dim=0", "F.normalize(x, dim=-1)"
    ),
    "row_max": Op(
        "return x.max(-1).values", "max(-1)", "max(0)", "x.amax(-1)",
        X.replace('"rows"', '"cols"') + 'y = { out = ["cols"] }\n',
    ),
    "double_strided": Op(
        "return 2 * x", "2 * x", "(2 * torch.as_strided(x, (x.numel(),), (1,))).reshape(x.shape)", "2 * x"
    ),
    "add_in_place": Op(
        "return x.clone().add_(z)", ".clone()", "", "x + z", X + X.replace("x", "z", 1) + Y, parameters="x, z"
    ),
    "flat_strided": Op(
        "return x.reshape(-1).view(x.shape[0], -1).exp()",
        "x.reshape(-1)",
        "torch.empty(0).set_(x.untyped_storage(), x.storage_offset(), (x.numel(),), (1,))",
        "torch.exp(x)",
    ),
}  # fmt: skip


def checked(folder: Path, op: Op, body: str, options: CheckOptions | None = None) -> tuple[str, list[Finding]]:
    names = [part.strip() for part in op.parameters.split(",")]
    (folder / "ops.py").write_text(f"{HEAD}def op({op.parameters}):\n    {body}\n", encoding="utf-8")
    values = "".join(f"    {name} = inputs['{name}']\n" for name in names)
    (folder / "ref.py").write_text(f"{HEAD}def reference(inputs):\n{values}    return {op.reference}\n")
    (folder / "gpuemu.toml").write_text(
        f'[[ops]]\nname = "op"\nop = "ops:op"\nreference = "ref.py"\n[ops.dims]\n{op.dims}[ops.args]\n{op.args}'
    )
    project = load(folder / "gpuemu.toml")
    assert not project.findings, project.findings
    (spec,) = project.kernels
    events = list(check_kernel(CheckRequest(spec, options or CheckOptions(), project.validation, root=project.root)))
    report = events[-1]
    assert isinstance(report, KernelReport)
    return report.status, [event for event in events if isinstance(event, Finding)]


@pytest.mark.parametrize("seed", [42, 7])
@pytest.mark.parametrize("name", OPS)
def test_a_correct_op_has_no_finding(tmp_path, name, seed):
    op = OPS[name]
    assert checked(tmp_path, op, op.body, CheckOptions(seed=seed, seed_given=True)) == ("passed", [])


@pytest.mark.parametrize("seed", [42, 7])
@pytest.mark.parametrize("name", OPS)
def test_a_planted_error_is_found(tmp_path, name, seed):
    op = OPS[name]
    assert op.right in op.body
    body = op.body.replace(op.right, op.wrong, 1)
    status, findings = checked(tmp_path, op, body, CheckOptions(seed=seed, seed_given=True))
    assert status == "failed", findings
    assert all(finding.rule.startswith("numeric/") for finding in findings if finding.severity is Severity.ERROR)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["softmax", "rms_norm", "gelu", "silu", "attention"])
def test_other_dtypes_have_no_finding(tmp_path, name, dtype):
    op = OPS[name]
    status, findings = checked(tmp_path, op, op.body)
    config = tmp_path / "gpuemu.toml"
    text = config.read_text().replace("[ops.dims]", f'dtypes = ["{dtype}"]\n[ops.dims]')
    if name == "attention":
        # 33 products of larger numbers overflow fp16, which is a finding.
        text = text.replace('"d"] }', '"d"], range = [-30.0, 30.0] }')
    config.write_text(text)
    (spec,) = load(config).kernels
    *events, report = check_kernel(CheckRequest(spec))
    found = [event for event in events if isinstance(event, Finding)]
    assert (status, findings, report.status, found) == ("passed", [], "passed", [])
