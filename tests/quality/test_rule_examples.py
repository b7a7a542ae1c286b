"""The examples in the documentation of the rules: the bad code has the finding, and the good code has none."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.rules import RULES, Rule
from gpuemu_lsp.engine.subjects.request import CheckOptions

pytestmark = pytest.mark.quality

SCALE = RULES["memory/out-of-bounds"].example.good
REFERENCE = RULES["reference/wrong-shape"].example.good
DIMS = "[kernels.dims]\nn = { min = 1, max = 1000 }\n"
ARGS = '[kernels.args]\nx = { in = ["n"] }\ny = { out = ["n"] }\n'
LAUNCH = '[kernels.launch]\ngrid = "ceil_div(n, 256)"\nblock = 256\n'
TABLES = DIMS + ARGS + LAUNCH
MATRIX = "[kernels.dims]\nrows = { max = 200 }\ncols = { max = 200 }\n"
UNTESTED = {
    "config/unused-suppression": "the language server",
    "compile/missing-header": "a toolkit without an optional header",
    "numeric/shape-mismatch": "an executor that loses bytes",
    "numeric/regression": "a stored baseline",
    "numeric/changed-output": "a recorded run",
    "config/recording-unused": "a recorded run",
    "artifact/regression": "a stored baseline",
    "memory/use-after-free": "a whole program",
    "memory/autotuned-in-place": "Triton, as in tests/triton/test_autotuned_launches.py",
    **{rule: "a whole program" for rule in RULES if rule.startswith("api/")},
    "memory/texture-bounds": "a texture object, as in tests/unit/emulator/launch/test_surfaces.py",
    "memory/tile-layout": "a tensor map, as in tests/unit/emulator/test_hopper_bugs.py",
    "memory/box-outside": "a tensor map, as in tests/unit/emulator/test_hopper_bugs.py",
    "memory/tensor-map": "a tensor map, as in tests/unit/emulator/launch/test_changed_tensor_maps.py",
    "sync/map-fence": "a tensor map, as in tests/unit/emulator/launch/test_changed_tensor_maps.py",
    "judge/verdict": "an answer and its task",
    "engine/timeout": "a long time",
    "engine/worker-crashed": "a process that ends",
    "engine/not-stored": "a read-only folder",
    "engine/no-gpu": "a machine without a GPU",
    "engine/internal-error": "a bug",
}
"""Rules whose examples need more than a kernel, and what."""


@dataclass(frozen=True)
class Setup:
    """The rest of the project that an example is part of."""

    tables: str = TABLES
    reference: str | None = None
    registered: bool = True
    source: str = SCALE
    arch: str = "sm_80"


def compared(expression: str, tables: str = TABLES) -> Setup:
    return Setup(
        tables, f"import numpy as np\n\ndef reference(inputs):\n    x = inputs['x']\n    return {expression}\n"
    )


PRODUCT = Setup(
    '[kernels.dims]\nn = 512\n[kernels.args]\nx = { in = ["n"] }\ny = { out = ["n"] }\n'
    "[kernels.launch]\ngrid = 1\nblock = 128\n",
    arch="sm_90a",
)
SETUPS = {
    "sync/async-order": PRODUCT,
    "sync/proxy-fence": replace(PRODUCT, tables=PRODUCT.tables + "[validation]\nstrict_fences = true\n"),
    "memory/tensor-memory": Setup(
        '[kernels.dims]\nn = { min = 1, max = 1000 }\n[kernels.args]\nx = { in = ["n"] }\ny = { out = ["n"] }\n'
        '[kernels.launch]\ngrid = "ceil_div(n, 32)"\nblock = 32\n',
        arch="sm_100a",
    ),
    "sync/register-pool": Setup(
        '[kernels.dims]\nn = 2048\n[kernels.args]\nx = { in = ["n"] }\ny = { out = ["n"] }\n'
        "[kernels.launch]\ngrid = 8\nblock = 384\n",
        arch="sm_90a",
    ),
    "sync/exited-block": Setup(
        '[kernels.dims]\nn = 8192\n[kernels.args]\nx = { in = ["n"] }\ny = { out = ["n"] }\n'
        "[kernels.launch]\ngrid = 256\nblock = 32\n",
        arch="sm_90a",
    ),
    "numeric/tolerance-exceeded": compared("x / x.size"),
    "numeric/nan": compared("np.sign(x)"),
    "numeric/inf": compared("np.logaddexp(0, x)"),
    "numeric/input-modified": Setup(TABLES),
    "numeric/narrow-sum": compared(
        "{'y': x.sum(axis=-1)}",
        "[kernels.dims]\nrows = { max = 8 }\nn = { max = 1000 }\n"
        '[kernels.args]\nx = { in = ["rows", "n"] }\ny = { out = ["rows"] }\n'
        '[kernels.launch]\ngrid = "rows"\nblock = 1\n',
    ),
    "numeric/invariant": Setup(TABLES + "[kernels.invariants]\nnon_negative = true\n"),
    "numeric/dtype-mismatch": Setup(DIMS + LAUNCH),
    "memory/misaligned": Setup(TABLES.replace('{ in = ["n"] }', '{ in = ["4 * n + 4"] }')),
    "memory/index-overflow": Setup(
        MATRIX.replace("200", "60000") + '[kernels.args]\ny = { out = ["rows", "cols"] }\n'
        '[kernels.launch]\ngrid = ["ceil_div(cols, 256)", "rows"]\nblock = 256\n'
    ),
    "memory/global-race": Setup(DIMS + '[kernels.args]\nx = { in = ["n"] }\ntotal = { inout = [1] }\n' + LAUNCH),
    "sync/missing-warp-mask": Setup(TABLES.replace("min = 1, max = 1000", "min = 256, max = 256")),
    "artifact/registers": Setup(TABLES + "[kernels.artifact_checks]\nmax_registers = 32\n"),
    "artifact/spills": Setup(TABLES + "[kernels.artifact_checks]\nmax_registers = 255\n"),
    "artifact/local-memory": Setup(TABLES + "[kernels.artifact_checks]\nmax_local_memory = 0\n"),
    "artifact/required-pattern": Setup(TABLES + '[kernels.artifact_checks]\nrequired_patterns = ["fma.rn.f32"]\n'),
    "artifact/forbidden-pattern": Setup(TABLES + '[kernels.artifact_checks]\nforbidden_patterns = ["printf"]\n'),
    "perf/uncoalesced": Setup(TABLES.replace('{ in = ["n"] }', '{ in = ["32 * n"] }')),
    "perf/bank-conflict": Setup(
        DIMS.replace("min = 1, max = 1000", "min = 1024, max = 1024")
        + ARGS
        + "[kernels.launch]\ngrid = 1\nblock = [32, 32]\n"
    ),
    "reference/constant": Setup(source=SCALE.replace("2.0f", "0.0f")),
    "engine/not-executed": Setup(registered=False),
    "engine/unsupported-instruction": Setup(arch="sm_90"),
    "op/error": compared("x.mean(axis=1)"),
    "op/wrong-result": compared("(x - x.mean(axis=1, keepdims=True)) / x.std(axis=1, keepdims=True)"),
    "reference/error": Setup(source=SCALE.replace("2.0f * x[i]", "tanhf(x[i])")),
}
TESTED = [rule for rule in RULES.values() if rule.name not in UNTESTED]


ROWS = '[ops.dims]\nrows = { max = 9 }\ncols = { min = 2, max = 90 }\n[ops.args]\nx = { in = ["rows", "cols"] }\n'


def op_entry(folder: Path, code: str) -> str:
    """Write the op of an example; return its entry. A mean has a value for each row."""
    (folder / "ops.py").write_text(code)
    name = code.partition("def ")[2].partition("(")[0]
    shape = '["rows"]' if name == "mean" else '["rows", "cols"]'
    return f'[[ops]]\nname = "{name}"\nop = "ops:{name}"\nreference = "ref.py"\n{ROWS}y = {{ out = {shape} }}\n'


def findings(folder: Path, rule: Rule, code: str) -> list[Finding]:
    """Return the findings of a project with this part of the example."""
    setup = SETUPS.get(rule.name, Setup())
    language = rule.example.language
    source, reference, config = setup.source, setup.reference, ""
    if language == "cuda":
        source = code
    elif language == "python":
        reference = code
    if rule.name.startswith("config/"):
        reference = REFERENCE
    entry = f'[[kernels]]\nname = "scale"\nsource = "scale.cu"\narch = "{setup.arch}"\n' + (
        'reference = "ref.py"\n' if reference else ""
    )
    if language != "toml":
        config = entry + setup.tables
    elif code.startswith("[[kernels]]"):
        config = code
    elif code.startswith("[kernels."):
        config = entry + code
    else:
        config = entry + code + setup.tables
    if rule.name.startswith("op/"):
        config, reference = op_entry(folder, code), setup.reference
    (folder / "scale.cu").write_text(source)
    (folder / "gelu.cu").write_text(source)
    (folder / "ref.py").write_text(reference or "")
    if setup.registered:
        (folder / "gpuemu.toml").write_text(config)
    counters = rule.name.startswith("perf/")
    targets = collect(["."], CheckOptions(cases=8, counters=counters), folder)
    found = list(targets.findings)
    for request in targets.requests:
        found += [event for event in check_kernel(request) if isinstance(event, Finding)]
    return found


@pytest.mark.parametrize("rule", TESTED, ids=lambda rule: rule.name)
def test_the_bad_example_has_the_finding(rule: Rule, tmp_path: Path) -> None:
    found = findings(tmp_path, rule, rule.example.bad)
    assert rule.name in [finding.rule for finding in found], found


@pytest.mark.parametrize("rule", TESTED, ids=lambda rule: rule.name)
def test_the_good_example_has_no_finding(rule: Rule, tmp_path: Path) -> None:
    found = findings(tmp_path, rule, rule.example.good)
    if rule.example.language == "toml" or rule.name == "reference/constant":
        assert rule.name not in [finding.rule for finding in found], found
    else:
        assert not [one for one in found if one.severity in (Severity.ERROR, Severity.WARNING)], found
        assert rule.name not in [finding.rule for finding in found], found


def test_only_rules_that_need_more_have_no_test() -> None:
    assert set(SETUPS) <= set(RULES) and set(UNTESTED) <= set(RULES)
    assert [rule.name for rule in RULES.values() if rule.example is None] == [
        "numeric/shape-mismatch",
        "engine/internal-error",
    ]
