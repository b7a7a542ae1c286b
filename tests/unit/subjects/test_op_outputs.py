"""Outputs of ops that gpuemu.toml does not declare, and the JSON schema of the original."""

from __future__ import annotations

import json

import pytest

from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.plan.model import TensorArg
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.subjects.request import CheckRequest
from tests.unit.subjects.test_ops import checked, write

OPEN = """
[[ops]]
name = "op"
op = "mylib:op"
reference = "ref.py"
[ops.dims]
rows = { max = 40 }
cols = { min = 4, max = 50 }
[ops.args]
x = { in = ["rows", "cols"] }
"""
SHAPES = {
    "same": ("x * 2", ["[rows, cols]"]),
    "row sums": ("x.sum(axis=1)", ["[rows]"]),
    "total": ("x.sum()", ["[]"]),
    "flat": ("x.reshape(-1)", ["[rows * cols]"]),
    "transposed": ("x.T", ["[cols, rows]"]),
    "padded": ("np.pad(x, ((0, 0), (1, 1)))", ["[rows, cols + 2]"]),
    "halves": ("x[:, : x.shape[1] // 2]", ["[rows, cols // 2]"]),
    "twice": ("np.concatenate([x, x], axis=1)", ["[rows, 2 * cols]"]),
    "both": ("np.concatenate([x.sum(axis=0), x.sum(axis=1)])", ["[rows + cols]"]),
    "three": ("x[:, :3]", ["[rows, 3]"]),
    "two": ("(x.max(axis=1), x.sum(axis=0))", ["[rows]", "[cols]"]),
    "named": ("{'m': x.max(axis=1), 's': x * 2}", ["[rows]", "[rows, cols]"]),
}


def op_files(folder, expression, reference=None, entry=OPEN):
    op = f"import numpy as np\n\n\ndef op(x):\n    return {expression}\n"
    called = reference or expression
    text = f"import numpy as np\n\n\ndef reference(inputs):\n    x = inputs['x']\n    return {called}\n"
    write(folder, entry, op, text)


def outputs(folder):
    (spec,) = load(folder / "gpuemu.toml").kernels
    prepared = prepare(CheckRequest(spec, text=""))
    (plan,) = prepared.plans
    found = [arg for arg in plan.args if isinstance(arg, TensorArg) and arg.direction == "out"]
    return [(arg.dtype, f"[{', '.join(map(str, arg.shape))}]") for arg in found]


@pytest.mark.parametrize("name", SHAPES)
def test_shapes_follow_from_the_reference(tmp_path, name):
    expression, shapes = SHAPES[name]
    op_files(tmp_path, expression)
    assert [shape for _, shape in outputs(tmp_path)] == shapes
    assert checked(tmp_path)[0].status == "passed"


def test_a_shape_other_than_that_of_the_reference_is_an_error(tmp_path):
    op_files(tmp_path, "x.sum(axis=1, keepdims=True)", "x.sum(axis=1)")
    report, findings = checked(tmp_path)
    assert report.status == "failed"
    assert {one.rule for one in findings} == {"numeric/shape-mismatch"}


def test_a_shape_that_depends_on_the_values_must_be_declared(tmp_path):
    op_files(tmp_path, "x[x > 0]")
    report, (finding,) = checked(tmp_path)
    assert (report.status, finding.rule) == ("not-executed", "config/ambiguous-signature") or report.status == "error"
    assert "Declare its outputs in `[ops.args]`" in finding.message


DTYPES = {
    "index": ("x.argmax(axis=1)", "float32", "int64"),
    "narrow index": ("x.argmax(axis=1).astype(np.int32)", "float32", "int32"),
    "mask": ("x > 0", "float32", "bool"),
    "wide sum": ("x.sum(axis=1, dtype=np.float32)", "float16", "float32"),
    "same": ("x + x", "float16", "float16"),
    "bfloat16": ("x + x", "bfloat16", "bfloat16"),
    "integers": ("x // 2", "int8", "int8"),
    "unsigned": ("x // 2", "uint16", "uint16"),
}


@pytest.mark.parametrize("declared", [False, True])
@pytest.mark.parametrize("name", DTYPES)
def test_dtypes_follow_from_the_op(tmp_path, name, declared):
    expression, dtype, expected = DTYPES[name]
    shape = '["rows"]' if "axis=1" in expression else '["rows", "cols"]'
    entry = OPEN.replace("[ops.dims]", f'dtypes = ["{dtype}"]\n[ops.dims]')
    op_files(tmp_path, expression, entry=entry + (f"y = {{ out = {shape} }}\n" if declared else ""))
    assert [found for found, _ in outputs(tmp_path)] == [expected]
    assert checked(tmp_path)[0].status == "passed"


@pytest.mark.parametrize("expression", ["(x + x).astype(np.float16)", "np.rint(x + x).astype(np.int64)"])
def test_a_narrower_result_has_the_wrong_dtype(tmp_path, expression):
    op_files(tmp_path, expression, "x + x")
    report, findings = checked(tmp_path)
    assert report.status == "failed"
    assert {one.rule for one in findings} == {"numeric/dtype-mismatch"}


def test_inputs_of_rank_three_are_assumed(tmp_path):
    entry = '[[ops]]\nname = "op"\nop = "mylib:op"\nreference = "ref.py"\ninput_names = ["x"]\n'
    op_files(tmp_path, "x * 2", entry=entry)
    report, (hint,) = checked(tmp_path)
    assert (report.status, hint.rule) == ("passed", "config/launch-inferred")
    assert "x of the shape [batch, seq, hidden] is assumed" in hint.message
    op_files(tmp_path, "x[..., ::-1] * 2", "x * 2", entry=entry)
    assert checked(tmp_path)[0].status == "failed"


SCHEMA = {
    "dtypes": ["float32", "float16"],
    "op_schema": {
        "name": "matmul",
        "dims": [
            {"name": "M", "candidates": [1, 2, 7, 64]},
            {"name": "K", "candidates": [1, 3, 16, 64]},
            {"name": "N", "candidates": [1, 2, 15, 64]},
        ],
        "inputs": [{"name": "a", "dims": ["M", "K"]}, {"name": "b", "dims": ["K", "N"]}],
        "output": {"name": "out", "dims": ["M", "N"]},
    },
}
SCHEMA_ENTRY = '[[ops]]\nname = "op"\nop = "mylib:op"\nreference = "ref.py"\nop_schema = "meta.json"\n'
MATMUL = "def reference(inputs):\n    return inputs['a'] @ inputs['b']\n"


@pytest.mark.parametrize("whole", [True, False])
def test_a_schema_states_the_inputs(tmp_path, whole):
    write(tmp_path, SCHEMA_ENTRY, "def op(a, b):\n    return a @ b\n", MATMUL)
    (tmp_path / "meta.json").write_text(json.dumps(SCHEMA if whole else SCHEMA["op_schema"]))
    report, findings = checked(tmp_path)
    assert (report.status, findings) == ("passed", [])
    assert report.cases.run == (32 if whole else 16)
    (tmp_path / "mylib.py").write_text("def op(a, b):\n    return (a.astype('f4') @ b[:, ::-1]).astype(a.dtype)\n")
    report, findings = checked(tmp_path)
    assert report.status == "failed"
    # Values of the range only: the op is right for them.
    (tmp_path / "mylib.py").write_text("def op(a, b):\n    return a @ b if (abs(a - 3) < 1.01).all() else a @ b + 9\n")
    ranged = json.loads(json.dumps(SCHEMA))
    ranged["op_schema"]["inputs"][0]["range"] = [2, 4]
    (tmp_path / "meta.json").write_text(json.dumps(ranged))
    assert checked(tmp_path)[0].status == "passed"
    assert all(finding.dims["M"] in (1, 2, 7, 64) for finding in findings)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("{", "cannot be read as JSON"),
        ("[]", "has no `inputs`"),
        ('{"inputs": [{"name": "a", "dims": ["M"]}]}', "unknown dim 'M'"),
        ('{"dims": [{"name": "M", "candidates": [0]}], "inputs": []}', "a list of sizes"),
        ('{"inputs": [{"dims": []}]}', "no `name`"),
        ('{"inputs": [{"name": "a", "dims": [], "range": [4, 3]}]}', "the first must be smaller"),
        ('{"inputs": [{"name": "a", "dims": [], "range": "x"}]}', "write [smallest, largest]"),
    ],
)
def test_a_schema_that_cannot_be_used_is_a_mistake_in_the_configuration(tmp_path, text, words):
    write(tmp_path, SCHEMA_ENTRY, "def op(a, b):\n    return a @ b\n", MATMUL)
    (tmp_path / "meta.json").write_text(text)
    report, (finding,) = checked(tmp_path)
    assert (report.status, finding.rule) == ("error", "config/bad-value")
    assert words in finding.message
