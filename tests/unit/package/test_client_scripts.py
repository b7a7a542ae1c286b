"""Results of a client against references that are scripts in a process of their own."""

from __future__ import annotations

import numpy as np

from gpuemu.ops.judgement import judge_op
from gpuemu_lsp.engine.project import load
from tests.unit.subjects.test_ops import ATTENTION_ENTRY, ATTENTION_SCRIPT, write


def attention(inputs, error=0.0):
    s = inputs["q"].astype("f8") @ inputs["k"].astype("f8").T * (1 + error)
    e = np.exp(s - s.max(axis=1, keepdims=True))
    return (e / e.sum(axis=1, keepdims=True) @ inputs["v"].astype("f8")).astype("f4")


def test_errors_of_intermediate_results_of_a_script_are_allowed_for(tmp_path):
    """The rounding of the arguments of the exponential is not simulated in a script."""
    entry = ATTENTION_ENTRY.replace('"script_based"\nop_script = "op.py"', '"client_side"')
    write(tmp_path, entry, reference=ATTENTION_SCRIPT)
    (spec,) = load(tmp_path / "gpuemu.toml").kernels
    draw = np.random.default_rng(3)
    sizes = {"q": (30.0, 8), "k": (0.1, 16), "v": (10.0, 16)}
    inputs = {name: draw.uniform(-size, size, (rows, 64)).astype("f4") for name, (size, rows) in sizes.items()}
    for error, passed in ((0.0, True), (3e-5, True), (1e-2, False)):
        assert judge_op(spec, inputs, attention(inputs, error), None, None, {}).passed is passed
