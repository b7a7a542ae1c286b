"""Correct kernels pass, planted bugs do not, on the cases a save would run and without a configured tolerance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.oracle_cases import (
    F16,
    F32,
    case_of,
    const,
    drawn_cases,
    gelu,
    layer_norm,
    layer_norm_one_pass,
    matmul,
    online_softmax,
    plan,
    reference,
    rows,
    scalar,
    seq_sum,
    softmax,
    tensor,
    tree_sum,
    verdict,
)

from gpuemu_lsp.engine.oracle import Numerics
from gpuemu_lsp.engine.project.expressions import parse
from gpuemu_lsp.engine.project.model import Tolerance

F = np.float32


def on_x(function):
    return lambda inputs: {"y": function(inputs["x"])}


def padded_softmax(x):
    wide = np.zeros((x.shape[0], -(-x.shape[1] // 128) * 128), x.dtype)
    wide[:, : x.shape[1]] = x
    return softmax(wide)[:, : x.shape[1]]


def rms_norm(x, eps=1e-5, power=0.5):
    return x / (tree_sum(x * x) / const(x, x.shape[-1]) + const(x, eps)) ** const(x, power)


def tail_of_four(function):
    def kernel(x):
        whole = np.arange(x.size).reshape(x.shape) < x.size // 4 * 4
        return np.where(whole, function(x), const(x, 0))

    return kernel


def erf(x):
    return np.vectorize(math.erf, otypes=[float])(x).astype(x.dtype)


SOFTMAX = "x = inputs['x']; e = np.exp(x - x.max(-1, keepdims=True)); return e / e.sum(-1, keepdims=True)"
LAYER_NORM = """
x = np.asarray(inputs["x"], dtype=np.float64)
m = x.mean(-1, keepdims=True)
return (x - m) / np.sqrt(((x - m) ** 2).mean(-1, keepdims=True) + 1e-5)
"""
SOFTMAX_LOOP = """
x = np.asarray(inputs["x"])
y = np.zeros(x.shape)
for i in range(x.shape[0]):
    top = max(x[i])
    e = [math.exp(v - top) for v in x[i]]
    y[i] = np.array(e) / sum(e)
return y
"""
GELU = "x = inputs['x']; return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x ** 3)))"
GELU_ERF = "x = inputs['x']; return x * 0.5 * np.vectorize(math.erfc)(-x / np.sqrt(2))"
RMS_NORM = "x = inputs['x']; return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5)"
SILU = "x = inputs['x']; return x / (1 + np.exp(-x))"

ROW_KERNELS = {
    "softmax": (
        SOFTMAX,
        {"sequential": softmax, "tree": lambda x: softmax(x, tree_sum), "online": online_softmax},
        {
            "padding leaks": padded_softmax,
            "no maximum": lambda x: np.exp(x) / seq_sum(np.exp(x)),
            "first 256 columns only": lambda x: np.concatenate([softmax(x[:, :256]), 0 * x[:, 256:]], 1),
        },
    ),
    "softmax in a loop": (SOFTMAX_LOOP, {"online": online_softmax}, {"padding leaks": padded_softmax}),
    "layer norm": (
        LAYER_NORM,
        {"two passes": layer_norm, "one pass": layer_norm_one_pass, "tree": lambda x: layer_norm(x, tree_sum)},
        {"no eps": lambda x: layer_norm(x, eps=0), "other eps": lambda x: layer_norm(x, eps=1e-6)},
    ),
    "rms norm": (RMS_NORM, {"tree": rms_norm}, {"no root": lambda x: rms_norm(x, power=1.0)}),
    "gelu": (
        GELU,
        {"tanh": gelu},
        {
            "no half": lambda x: gelu(x, half=1),
            "wrong constant": lambda x: gelu(x, cubic=0.0447),
            "erf form": lambda x: const(x, 0.5) * x * (const(x, 1) + erf(x * const(x, math.sqrt(0.5)))),
            "tail": tail_of_four(gelu),
        },
    ),
    "gelu by erfc": (
        GELU_ERF,
        {"1 + erf cancels": lambda x: const(x, 0.5) * x * (const(x, 1) + erf(x * const(x, math.sqrt(0.5))))},
        {"tanh form": gelu},
    ),
    "silu": (
        SILU,
        {
            "exp": lambda x: x / (const(x, 1) + np.exp(-x)),
            "tanh": lambda x: x * const(x, 0.5) * (const(x, 1) + np.tanh(const(x, 0.5) * x)),
        },
        {"twice the slope": lambda x: x / (const(x, 1) + np.exp(const(x, -2) * x))},
    ),
    "rounding to integers": (
        "return np.floor(inputs['x'] * 10)",
        {"product": lambda x: np.floor(x * const(x, 10)), "quotient": lambda x: np.floor(x / const(x, 0.1))},
        {"to nearest": lambda x: np.rint(x * const(x, 10))},
    ),
}

CORRECT = [(name, how) for name, (_, right, _) in ROW_KERNELS.items() for how in right]
PLANTED = [(name, how) for name, (_, _, wrong) in ROW_KERNELS.items() for how in wrong]


@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
@pytest.mark.parametrize(("name", "how"), CORRECT)
def test_correct_kernels_pass_every_case(tmp_path, name, how, dtype):
    body, right, _ = ROW_KERNELS[name]
    drawn, loaded = rows(dtype, dtype), reference(tmp_path, body)
    for case in drawn_cases(drawn, 12):
        judged = verdict(loaded, drawn, case, on_x(lambda x: right[how](x.astype(F))))
        assert judged.mismatches == (), (case.key.strategy, case.dims, judged.mismatches[0].message)


@pytest.mark.parametrize("strategy", ["nan_injected", "adversarial"])
@pytest.mark.parametrize(("name", "how"), CORRECT)
def test_correct_kernels_pass_with_special_values(tmp_path, name, how, strategy):
    body, right, _ = ROW_KERNELS[name]
    drawn, loaded = rows(), reference(tmp_path, body)
    for case in drawn_cases(drawn, 4, strategy=strategy):
        judged = verdict(loaded, drawn, case, on_x(right[how]))
        assert all(mismatch.severity is not None for mismatch in judged.mismatches), judged.mismatches[0].message


@pytest.mark.parametrize(("name", "how"), PLANTED)
def test_planted_bugs_show_in_eight_cases(tmp_path, name, how):
    body, _, wrong = ROW_KERNELS[name]
    drawn, loaded = rows(), reference(tmp_path, body)
    judged = [verdict(loaded, drawn, case, on_x(wrong[how])) for case in drawn_cases(drawn)]
    assert any(one.mismatches for one in judged)


@pytest.mark.parametrize(("kernel", "too_tight"), [(softmax, True), (padded_softmax, False)])
def test_a_tolerance_tighter_than_rounding_applies_with_a_note(tmp_path, kernel, too_tight):
    drawn, loaded = rows(), reference(tmp_path, SOFTMAX)
    tight = {"float32": Tolerance(atol=1e-12, rtol=0.0)}
    judged = [verdict(loaded, drawn, case, on_x(kernel), tolerances=tight) for case in drawn_cases(drawn)]
    found = [one for run in judged for one in run.mismatches]
    assert {one.rule for one in found} == {"numeric/tolerance-exceeded"}
    assert all(one.severity is None and one.error > one.allowed for one in found)
    noted = ["tighter than the error that rounding explains" in one.message for one in found]
    assert all(noted) if too_tight else not all(noted)
    assert not any("gpuemu.toml" in one.message for run in planted_softmax(loaded, drawn) for one in run.mismatches)


def planted_softmax(loaded, drawn):
    """Judge a wrong softmax without a configured tolerance."""
    return [verdict(loaded, drawn, case, on_x(padded_softmax)) for case in drawn_cases(drawn)]


@pytest.mark.parametrize("how", ["tanh", "silu"])
def test_half_arithmetic_gets_a_half_budget(tmp_path, how):
    body, kernel = {"tanh": (GELU, gelu), "silu": (SILU, ROW_KERNELS["silu"][1]["exp"])}[how]
    drawn, loaded = rows("float16", "float16"), reference(tmp_path, body)
    for case in drawn_cases(drawn):
        assert verdict(loaded, drawn, case, on_x(kernel), F16).mismatches == (), (case.key.strategy, case.dims)
    assert any(verdict(loaded, drawn, case, on_x(kernel), F32).mismatches for case in drawn_cases(drawn))


def test_a_half_sum_that_overflows_is_a_bug(tmp_path):
    drawn, loaded = rows("float16", "float16"), reference(tmp_path, RMS_NORM)
    judged = [verdict(loaded, drawn, case, on_x(rms_norm), F16) for case in drawn_cases(drawn)]
    assert any(one.mismatches for one in judged)


def test_a_half_sum_that_overflows_is_a_bug_of_a_single_output_too(tmp_path):
    x, y = tensor("x", "in", ["r", "c"], "float16", range=(8.0, 16.0)), tensor("y", "out", ["r"])
    drawn, loaded = plan([x, y], ["r", "c"], ("r",), ("256",)), reference(tmp_path, "return inputs['x'].sum(axis=-1)")
    case = case_of(drawn, "uniform", {"r": 4, "c": 8000})
    judged = verdict(loaded, drawn, case, lambda i: {"y": np.full(4, np.inf, F)}, F16)
    assert [mismatch.rule for mismatch in judged.mismatches] == ["numeric/inf"]


MATMUL = plan(
    [tensor("a", "in", ["M", "K"]), tensor("b", "in", ["K", "N"]), tensor("c", "out", ["M", "N"])],
    ["M", "N", "K"],
    ("ceil_div(N, 16)", "ceil_div(M, 16)"),
    ("16", "16"),
)
MATMULS = {
    "whole tiles only": lambda a, b: matmul(a[:, : a.shape[1] // 16 * 16], b[: b.shape[0] // 16 * 16]),
    "last step missing": lambda a, b: matmul(a[:, : max(1, a.shape[1] - 1)], b[: max(1, b.shape[0] - 1)]),
    "overwritten accumulator": lambda a, b: a[:, -1:] * b[-1:],
    "bfloat16 inputs": lambda a, b: matmul((a.view(np.uint32) & np.uint32(0xFFFF0000)).view(F), b),
}
MATMUL_REFERENCES = {
    "operator": "return inputs['A'] @ inputs['B']",
    "einsum": "return np.einsum('mk,kn->mn', inputs['a'], inputs['b'])",
    "dot": "return np.dot(np.array(inputs['a']), np.array(inputs['b']))",
}


@pytest.mark.parametrize("form", MATMUL_REFERENCES)
def test_a_sequential_matmul_passes(tmp_path, form):
    loaded = reference(tmp_path, MATMUL_REFERENCES[form])
    for case in drawn_cases(MATMUL, 16):
        judged = verdict(loaded, MATMUL, case, lambda i: {"c": matmul(i["a"], i["b"])})
        assert judged.mismatches == (), (case.key.strategy, case.dims, judged.mismatches[0].message)


@pytest.mark.parametrize("how", MATMULS)
def test_wrong_matmuls_do_not(tmp_path, how):
    loaded = reference(tmp_path, MATMUL_REFERENCES["operator"])
    judged = [
        verdict(loaded, MATMUL, case, lambda i: {"c": MATMULS[how](i["a"], i["b"])}) for case in drawn_cases(MATMUL)
    ]
    assert any(one.mismatches for one in judged)


def test_small_integers_have_a_zero_budget(tmp_path):
    loaded = reference(tmp_path, MATMUL_REFERENCES["operator"])
    linear = Numerics(frozenset({"f32"}), (), linear=True)
    case = next(c for c in _linear_cases() if c.exact)
    assert verdict(loaded, MATMUL, case, lambda i: {"c": matmul(i["a"], i["b"])}, linear).mismatches == ()

    def off_by_one_ulp(i):
        c = matmul(i["a"], i["b"])
        c[-1, -1] = np.nextafter(c[-1, -1], F(np.inf))
        return {"c": c}

    found = verdict(loaded, MATMUL, case, off_by_one_ulp, linear).mismatches
    assert [mismatch.count for mismatch in found] == [1]


def _linear_cases():
    from gpuemu_lsp.engine.fuzz import cases
    from gpuemu_lsp.engine.fuzz.model import LaunchHints

    return cases(MATMUL, 42, 8, LaunchHints(linear=True))


ARGMAX = plan([tensor("x", "in", ["r", "c"]), tensor("i", "out", ["r"], "int32")], ["r", "c"])
QUANTISE = plan([tensor("x", "in", ["n"]), tensor("q", "out", ["n"], "int8"), scalar("s", 0.05, "float32")], ["n"])
GATHER = plan(
    [tensor("x", "in", ["v"]), tensor("i", "in", ["n"], "int64", range=(0, parse("v"))), tensor("y", "out", ["n"])],
    ["v", "n"],
)
QUANTISED = "return np.clip(np.rint(inputs['x'] / inputs['s']), -128, 127)"


def last_argmax(x):
    return x.shape[1] - 1 - x[:, ::-1].argmax(-1)


@pytest.mark.parametrize(
    ("drawn", "body", "kernel", "right"),
    [
        (ARGMAX, "return inputs['x'].argmax(-1)", lambda i: {"i": i["x"].argmax(-1)}, True),
        (ARGMAX, "return inputs['x'].argmax(-1)", lambda i: {"i": last_argmax(i["x"])}, True),
        (ARGMAX, "return inputs['x'].argmax(-1)", lambda i: {"i": i["x"].argmin(-1)}, False),
        (QUANTISE, QUANTISED, lambda i: {"q": np.clip(np.rint(i["x"] * F(20)), -128, 127)}, True),
        (QUANTISE, QUANTISED, lambda i: {"q": np.clip(np.trunc(i["x"] * F(20)), -128, 127)}, False),
        (GATHER, "return inputs['x'][inputs['i']]", lambda i: {"y": i["x"][i["i"]]}, True),
        (GATHER, "return inputs['x'][inputs['i']]", lambda i: {"y": i["x"][np.maximum(i["i"] - 1, 0)]}, False),
    ],
)
def test_integers_are_exact_but_for_ties_and_borders(tmp_path, drawn, body, kernel, right):
    loaded = reference(tmp_path, body)
    judged = [verdict(loaded, drawn, case, kernel) for case in drawn_cases(drawn, 24)]
    assert all(not one.mismatches for one in judged) == right


COPIES = Numerics(frozenset(), (), True)
SORT = plan([tensor("x", "in", ["n"]), tensor("i", "out", ["n"], "int32")], ["n"])
TAKE = plan([tensor("x", "in", ["n"]), tensor("y", "out", ["n"])], ["n"])


@pytest.mark.parametrize(
    ("drawn", "body", "kernel", "right"),
    [
        (ARGMAX, "return inputs['x'].argmax(-1)", lambda i: {"i": i["x"].argmax(-1)}, True),
        (ARGMAX, "return inputs['x'].argmax(-1)", lambda i: {"i": last_argmax(i["x"])}, False),
        (SORT, "return inputs['x'].argsort()", lambda i: {"i": i["x"].argsort(kind="stable")}, True),
        (SORT, "return inputs['x'].argsort()", lambda i: {"i": i["x"].size - 1 - i["x"][::-1].argsort()}, True),
        (SORT, "return inputs['x'].argsort()", lambda i: {"i": (-i["x"]).argsort()}, False),
        (TAKE, "return inputs['x']", lambda i: {"y": i["x"]}, True),
        (TAKE, "return np.sort(inputs['x'])", lambda i: {"y": np.sort(i["x"])}, True),
        (TAKE, "return inputs['x']", lambda i: {"y": np.nextafter(i["x"], F(np.inf))}, False),
        (TAKE, "return np.maximum(inputs['x'], 0)", lambda i: {"y": np.where(i["x"] > 0, i["x"], F(1e-7))}, False),
    ],
)
def test_a_kernel_that_only_copies_values_is_exact(tmp_path, drawn, body, kernel, right):
    """The reference defines the index of a maximum; a permutation may place equal values in either order."""
    loaded = reference(tmp_path, body)
    judged = [verdict(loaded, drawn, case, kernel, COPIES) for case in drawn_cases(drawn, 24)]
    assert all(not one.mismatches for one in judged) == right


def test_a_reference_that_iterates_to_convergence_ends(tmp_path):
    body = """
a = np.abs(np.asarray(inputs["x"])) + 1
x = a.copy()
while True:
    y = 0.5 * (x + a / x)
    if np.max(np.abs(y - x)) < 1e-13:
        return y
    x = y
"""
    drawn, loaded = rows(), reference(tmp_path, body)
    for case in drawn_cases(drawn, 2):
        judged = verdict(loaded, drawn, case, on_x(lambda x: np.sqrt(np.abs(x) + F(1)) * F(1 + 3e-7)))
        assert judged.mismatches == ()
        judged = verdict(loaded, drawn, case, on_x(lambda x: np.sqrt(np.abs(x) + F(1)) * F(1 + 1e-4)))
        assert judged.mismatches


@pytest.mark.parametrize("wrong", [0.0, 1e-3])
def test_zeros_are_compared_too(tmp_path, wrong):
    drawn, loaded = rows(), reference(tmp_path, "return np.maximum(inputs['x'], 0)")
    case = case_of(drawn, "negative", {"r": 8, "c": 8})
    judged = verdict(loaded, drawn, case, on_x(lambda x: np.maximum(x, F(wrong))))
    assert bool(judged.mismatches) == (wrong > 0)


def test_an_approximate_instruction_widens_the_budget(tmp_path):
    drawn, loaded = rows(), reference(tmp_path, "return np.tanh(inputs['x'])")
    rough = on_x(lambda x: np.tanh(x) * (1 + 2.0**-11 * np.sin(np.arange(x.size))).reshape(x.shape).astype(F))
    fast = Numerics(frozenset({"f32"}), ("tanh.approx.f32",))
    for case in drawn_cases(drawn):
        assert verdict(loaded, drawn, case, rough, fast).mismatches == ()
    assert any(verdict(loaded, drawn, case, rough, F32).mismatches for case in drawn_cases(drawn))


COMPLEX = plan([tensor("x", "in", ["n"]), tensor("y", "out", ["n", "2"])], ["n"])


@pytest.mark.parametrize(
    ("kernel", "right"),
    [
        (lambda i: {"y": np.stack([i["x"], i["x"] * F(0)], -1)}, True),  # infinity times zero
        (lambda i: {"y": np.stack([i["x"], np.full_like(i["x"], np.nan)], -1)}, False),
    ],
)
def test_a_complex_number_with_one_infinite_part_has_an_open_other_part(tmp_path, kernel, right):
    loaded = reference(tmp_path, "x = inputs['x']\nreturn np.stack([x, 0 * np.nan_to_num(x)], -1)")
    judged = [verdict(loaded, COMPLEX, case, kernel) for case in drawn_cases(COMPLEX, 8, strategy="nan_injected")]
    assert all(not one.mismatches for one in judged) == right


LOGSUMEXP = """
x = inputs["x"]
top = x.max(axis=-1, keepdims=True)
return np.broadcast_to(top + np.log(np.exp(x - top).sum(axis=-1, keepdims=True)), x.shape)
"""


def logsumexp(x):
    """Computes logsumexp without subtracting an infinity from itself, unlike the reference."""
    top = x.max(-1, keepdims=True)
    shifted = np.where(x == top, np.float32(0), x - top)
    return np.broadcast_to(top + np.log(seq_sum(np.exp(shifted))), x.shape)


def without_nan(x):
    return logsumexp(np.where(np.isnan(x), np.float32(0), x))


@pytest.mark.parametrize(("kernel", "right"), [(logsumexp, True), (without_nan, False)])
def test_a_nan_that_only_the_reference_produces_was_not_dropped(tmp_path, kernel, right):
    loaded, drawn = reference(tmp_path, LOGSUMEXP), rows()
    judged = [verdict(loaded, drawn, case, on_x(kernel)) for case in drawn_cases(drawn, 16, strategy="nan_injected")]
    assert all(not one.mismatches for one in judged) == right
