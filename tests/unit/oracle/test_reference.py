"""References: loading, calling, accepted return values, and mistakes in the user's file."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from support.oracle_cases import case_of, plan, reference, rows, scalar, tensor

from gpuemu_lsp.engine.oracle import ReferenceFailure, call, load
from gpuemu_lsp.engine.oracle.reference import same_outputs
from gpuemu_lsp.engine.project.model import DimSpec

ROWS = rows()
CASE = case_of(ROWS, "uniform", {"r": 2, "c": 3})
ONE = plan([tensor("x", "in", ["n"]), tensor("s", "out", ["1"])], ["n"])
TWO_OUT = plan(
    [
        tensor("x", "in", ["n"]),
        tensor("lo", "out", ["n"], key="low"),
        tensor("i", "out", ["n"], "int32"),
        tensor("acc", "inout", ["n"]),
    ],
    ["n"],
)
TWO_CASE = case_of(TWO_OUT, "uniform", {"n": 4})


@pytest.mark.parametrize(
    "body",
    [
        "return inputs['x'] * 2",
        "return (inputs['x'] * 2,)",
        "return (inputs['x'] * 2).tolist()",
        "return {'y': inputs['x'] * 2}",
        "return (inputs['x'] * 2).ravel()",
        "x = inputs['x']; x *= 2; return x",
    ],
)
def test_accepted_forms_of_one_output(tmp_path, body):
    before = CASE.tensors["x"].copy()
    got = call(reference(tmp_path, body), ROWS, CASE)
    assert np.array_equal(got.arrays["y"], before.astype(np.float64) * 2)
    assert got.arrays["y"].dtype == np.float64
    assert np.array_equal(CASE.tensors["x"], before), "the reference works on copies"


@pytest.mark.parametrize("body", ["return inputs['x'].sum()", "return [inputs['x'].sum()]"])
def test_a_number_is_an_array_of_one(tmp_path, body):
    case = case_of(ONE, "uniform", {"n": 5})
    assert call(reference(tmp_path, body), ONE, case).arrays["s"].shape == (1,)


@pytest.mark.parametrize(
    "body",
    [
        "return x, [1, 2, 3, 4], inputs['acc'] + 1",
        "return {'low': x, 'i': np.array([1, 2, 3, 4]), 'acc': inputs['acc'] + 1}",
        "return {'lo': x, 'i': np.array([1, 2, 3, 4]), 'acc': inputs['acc'] + 1, 'more': 0}",
    ],
)
def test_several_outputs_by_order_or_name(tmp_path, body):
    got = call(reference(tmp_path, "x = inputs['x']\n" + body), TWO_OUT, TWO_CASE).arrays
    assert got["i"].tolist() == [1, 2, 3, 4]
    assert np.array_equal(got["acc"], TWO_CASE.tensors["acc"].astype(np.float64) + 1)


def test_nothing_returned_means_changed_in_place(tmp_path):
    drawn = plan([tensor("p", "inout", ["n"])], ["n"])
    case = case_of(drawn, "uniform", {"n": 4})
    got = call(reference(tmp_path, "inputs['p'] += 1"), drawn, case)
    assert np.array_equal(got.arrays["p"], case.tensors["p"].astype(np.float64) + 1)


@pytest.mark.parametrize(
    ("body", "rule", "says"),
    [
        ("return inputs['x'].T", "reference/wrong-shape", "[3, 2]"),
        ("return inputs['x'][:, :2]", "reference/wrong-shape", "[2, 2]"),
        ("return None", "reference/wrong-shape", "None"),
        ("return 'abc'", "reference/wrong-shape", "dtype"),
        ("return inputs['x'] * 1j", "reference/wrong-shape", "complex"),
        ("return {'z': 1}", "reference/wrong-shape", "missing: y"),
        ("return [[1, 2], [3]]", "reference/wrong-shape", "array"),
        ("return inputs['x'] + missing", "reference/error", "NameError"),
        ("raise SystemExit(3)", "reference/error", "SystemExit"),
        ("raise KeyboardInterrupt", "reference/error", "KeyboardInterrupt"),
        ("def f(n): return f(n + 1)\nreturn f(0)", "reference/error", "RecursionError"),
        ("return inputs['q', 1]", "reference/error", "KeyError"),
    ],
)
def test_failures_have_their_line(tmp_path, body, rule, says):
    loaded = reference(tmp_path, body)
    with pytest.raises(ReferenceFailure) as failure:
        call(loaded, ROWS, CASE)
    assert failure.value.rule == rule
    assert says in failure.value.message
    if rule == "reference/error":
        assert failure.value.line == 4 if "\n" not in body else failure.value.line in (4, 5)


@pytest.mark.parametrize(
    ("text", "says", "line"),
    [
        ("def reference(inputs:\n", "SyntaxError", 1),
        ("import numpy\n1/0\n", "ZeroDivisionError", 2),
        ("def softmax_ref(inputs): return 0\n", 'reference = "ref.py:softmax_ref"', None),
        ("reference = 3\n", "no function 'reference'", None),
        ("import no_such_module_anywhere\n", "ModuleNotFoundError", 1),
    ],
)
def test_scripts_that_cannot_be_loaded(tmp_path, text, says, line):
    path = tmp_path / "ref.py"
    path.write_text(text)
    with pytest.raises(ReferenceFailure) as failure:
        load(str(path))
    assert says in failure.value.message
    assert failure.value.line == line


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("def reference(inputs):\n    x = inputs['x']\n    return x[:, :2]\n", 3),
        ("def reference(inputs):\n    def f(x):\n        return x\n    return f(inputs['x'])[:, :2]\n", 4),
        ("\ndef reference(inputs):\n    if inputs:\n        return 1, 2\n    return 3\n", 2),
        ("def reference(inputs):\n    inputs['x']\n", 1),
        ("import functools\n\n@functools.cache\ndef f(): return 1\n\nreference = lambda inputs: (1, 2)\n", 6),
    ],
)
def test_a_result_of_the_wrong_shape_is_on_its_return(tmp_path, text, line):
    path = tmp_path / "ref.py"
    path.write_text(text)
    with pytest.raises(ReferenceFailure) as failure:
        call(load(str(path)), ROWS, CASE)
    assert (failure.value.rule, failure.value.line) == ("reference/wrong-shape", line)


def test_an_unknown_key_fails_on_its_line_with_the_known_keys(tmp_path):
    several = plan([tensor("a", "in", ["n"]), tensor("b", "in", ["n"]), tensor("y", "out", ["n"])], ["n"])
    loaded = reference(tmp_path, "a = inputs['a']\nreturn a + inputs['bias']")
    with pytest.raises(ReferenceFailure, match="'bias' is not an input of this kernel; its inputs are a, b") as failure:
        call(loaded, several, case_of(several, "uniform", {"n": 4}))
    assert failure.value.line == 5


def test_another_function_by_name(tmp_path):
    path = tmp_path / "ref.py"
    path.write_text("def twice(inputs):\n    return inputs['x'] * 2\n")
    assert call(load(str(path), "twice"), ROWS, CASE).arrays["y"].shape == (2, 3)


def test_output_and_warnings_are_discarded(tmp_path, capfd):
    header = "import numpy as np, sys, warnings\nprint('loading')"
    body = "print('called'); print('err', file=sys.stderr); warnings.warn('w'); return np.log(-inputs['x'] ** 2)"
    call(reference(tmp_path, body, header), ROWS, CASE)
    captured = capfd.readouterr()
    assert (captured.out, captured.err) == ("", "")


def test_every_load_reads_the_file_and_its_modules_again(tmp_path):
    (tmp_path / "module_of_ref.py").write_text("FACTOR = 2\n")
    body = "return inputs['x'] * FACTOR"
    header = "from module_of_ref import FACTOR"
    first = call(reference(tmp_path, body, header), ROWS, CASE)
    (tmp_path / "module_of_ref.py").write_text("FACTOR = 3\n")
    second = call(reference(tmp_path, body, header), ROWS, CASE)
    assert np.allclose(second.arrays["y"], first.arrays["y"] * 1.5)
    assert "module_of_ref" not in sys.modules
    assert not list(tmp_path.glob("__pycache__"))
    assert str(tmp_path) not in sys.path


def test_an_environment_inside_the_project_stays_loaded(tmp_path, monkeypatch):
    library = tmp_path / ".venv" / "site-packages"
    library.mkdir(parents=True)
    (library / "library_of_ref.py").write_text("FACTOR = 2\n")
    monkeypatch.syspath_prepend(str(library))
    call(reference(tmp_path, "import library_of_ref\nreturn inputs['x'] * library_of_ref.FACTOR"), ROWS, CASE)
    assert sys.modules.pop("library_of_ref").FACTOR == 2


def test_keyword_arguments_reach_the_function(tmp_path):
    drawn = plan(
        [tensor("x", "in", ["n"]), tensor("y", "out", ["n"]), scalar("alpha", 2.5, "float32")],
        [DimSpec("n"), DimSpec("heads", 8, 8)],
    )
    case = case_of(drawn, "uniform", {"n": 3, "heads": 8})
    loaded = reference(tmp_path, "return inputs['x'] * alpha + heads", signature="inputs, alpha, heads, other=1")
    assert np.allclose(call(loaded, drawn, case).arrays["y"], case.tensors["x"] * 2.5 + 8)


def test_low_precision_is_reported(tmp_path):
    got = call(reference(tmp_path, "return inputs['x'].astype(np.float32)"), ROWS, CASE)
    assert got.low_precision == ("y",)
    assert call(reference(tmp_path, "return inputs['x']"), ROWS, CASE).low_precision == ()


def test_overflow_of_the_reference_is_recorded(tmp_path):
    assert call(reference(tmp_path, "return np.exp(1e3 + inputs['x'])"), ROWS, CASE).overflowed
    assert not call(reference(tmp_path, "return 1 / (0 * inputs['x'])"), ROWS, CASE).overflowed


def test_a_random_reference_is_detected(tmp_path):
    steady = reference(tmp_path, "return inputs['x']")
    assert same_outputs(call(steady, ROWS, CASE), call(steady, ROWS, CASE))
    random = reference(tmp_path, "return inputs['x'] + np.random.rand()")
    assert not same_outputs(call(random, ROWS, CASE), call(random, ROWS, CASE))
