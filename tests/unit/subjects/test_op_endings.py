"""Ops that end their process, do not return, or return lists, with outputs that gpuemu.toml does not declare."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from gpuemu import Client
from gpuemu.launches import KernelError
from gpuemu_lsp.cli.gpuemu import main as gpuemu
from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.jobs.table import FUNCTIONS
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.store import Store
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.model import Limits
from gpuemu_lsp.engine.workers.pool import Pool
from tests.unit.subjects.test_op_outputs import OPEN, op_files
from tests.unit.subjects.test_ops import checked

OPTIONS = CheckOptions(cases=3, case_seconds=0.5)


def test_an_op_that_does_not_return_is_not_a_mistake_of_its_reference(tmp_path):
    op_files(tmp_path, "exec('while True: pass')", "2 * x")
    report, findings = checked(tmp_path, OPTIONS)
    assert report.status == "failed"
    assert [finding.rule for finding in findings] == ["op/error"]
    assert "did not return within 0.5 s" in findings[0].message


CRASHES = {
    "op": ("__import__('ctypes').string_at(0)", "2 * x", "op/error", "mylib.py"),
    "op exits": ("__import__('os')._exit(0)", "2 * x", "op/error", "gpuemu.toml"),
    "reference": ("2 * x", "__import__('ctypes').string_at(0)", "reference/error", "ref.py"),
    "declared reference": ("2 * x", "__import__('ctypes').string_at(0)", "reference/error", "ref.py"),
    "declared": ("__import__('os')._exit(0)", "2 * x", "op/error", "gpuemu.toml"),
}


@pytest.mark.parametrize("name", CRASHES)
def test_what_ended_the_process_is_named(tmp_path, name):
    op, reference, rule, file = CRASHES[name]
    op_files(tmp_path, op, reference, OPEN + 'y = { out = ["rows", "cols"] }\n' if "declared" in name else OPEN)
    project = load(tmp_path / "gpuemu.toml")
    requests = [CheckRequest(project.kernels[0], OPTIONS, project.validation, root=project.root)]
    with Pool(FUNCTIONS, size=1, limits=Limits()) as pool:
        run = run_requests(requests, [], str(tmp_path), pool)
    assert run.kernels[0].status in ("error", "failed")
    (finding,) = (one for one in run.findings if one.severity == "error")
    assert (finding.rule, Path(finding.place.path).name) == (rule, file), finding
    assert "ended" in finding.message


TIMED_OUT = """
from gpuemu.launches import KernelError
from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.rules import make


def op(inputs):
    place = Place("kernel.py", Range.of(0, 0, 0, 1))
    late = KernelError((make("engine/timeout", "the launch did not finish within 60 s", place),))
    try:
        raise late
    except KernelError as error:
        RAISE
"""


@pytest.mark.parametrize("how", ["raise", "raise ValueError('no result') from error", "return inputs['x']"])
def test_a_launch_that_the_time_limit_ends_is_not_a_mistake_of_the_op(tmp_path, how):
    op_files(tmp_path, "x", "2 * x", OPEN.replace('op = "mylib:op"', 'op_script = "op.py"'))
    (tmp_path / "op.py").write_text(TIMED_OUT.replace("RAISE", how))
    report, findings = checked(tmp_path, OPTIONS)
    if how.startswith("raise"):
        assert (report.status, report.cases.run) == ("error", 0)
        assert [finding.rule for finding in findings] == ["engine/timeout"]
        assert "did not finish within 60 s" in findings[0].message
    else:
        assert {finding.rule for finding in findings} == {"numeric/tolerance-exceeded"}


def test_a_launch_of_a_client_that_the_time_limit_ends_is_not_executed(tmp_path):
    op_files(tmp_path, "x", "2 * x")
    place = Place("kernel.py", Range.of(0, 0, 0, 1))

    def late(inputs):
        raise KernelError((make("engine/timeout", "the launch did not finish within 60 s", place),))

    (failed,) = Client(tmp_path).fuzz_op_client_side("op", late, iterations=1, seed=1).failures
    assert [one["kind"] for one in failed.failures] == ["NotExecuted"]


def test_the_case_that_ended_the_process_is_stored_and_runs_again(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    entry = OPEN + 'y = { out = ["rows", "cols"] }\n'
    # The dtype of y is found by a call with a small case, before the first one that is counted.
    op_files(tmp_path, "2 * x if len(x) < 20 else __import__('os')._exit(0)", "2 * x", entry)
    assert gpuemu(["test"]) == 1
    with Store(tmp_path) as store:
        (stored,) = store.failures()
    assert (stored.failure.rule, stored.failure.kernel) == ("op/error", "op")
    assert stored.failure.dims["rows"] >= 20
    assert f"case {stored.case}" in capsys.readouterr().out
    gpuemu(["reproduce", stored.case])
    assert "ended the process that runs it" in "".join(capsys.readouterr())
    op_files(tmp_path, "2 * x", "2 * x", entry)
    assert gpuemu(["test"]) == 0
    with Store(tmp_path) as store:
        assert store.failures() == []


@pytest.mark.parametrize("reference", ["[x.sum(axis=1), x * 2]", "(x.sum(axis=1), x * 2)"])
def test_a_list_of_arrays_is_several_results(tmp_path, reference):
    op_files(tmp_path, "[x.sum(axis=1), x * 2]", reference)
    report, findings = checked(tmp_path, OPTIONS)
    assert (report.status, findings) == ("passed", [])
    op_files(tmp_path, "[x.sum(axis=1), x * 3]", reference)
    assert checked(tmp_path, OPTIONS)[0].status == "failed"


def test_a_list_of_rows_is_one_result_where_the_op_returns_one_array(tmp_path):
    op_files(tmp_path, "np.stack([x.sum(axis=0), x[0]])", "[x.sum(axis=0), x[0]]")
    report, findings = checked(tmp_path, OPTIONS)
    assert (report.status, findings) == ("passed", [])


def test_results_without_names_are_explained(tmp_path):
    op_files(tmp_path, "{'total': x.sum(axis=1), 'twice': x * 2}", "(x.sum(axis=1), x * 2)")
    report, findings = checked(tmp_path, OPTIONS)
    assert report.status == "failed"
    assert "The reference returns no dict, so its results have no names" in findings[0].message


def test_a_shape_that_nothing_declares_is_that_of_the_reference(tmp_path):
    op_files(tmp_path, "x.sum(axis=1, keepdims=True)", "x.sum(axis=1)")
    assert "of the reference: [" in checked(tmp_path, OPTIONS)[1][0].message
    op_files(tmp_path, "x[:, :1]", "x", OPEN + 'y = { out = ["rows", "cols"] }\n')
    assert "declared: [" in checked(tmp_path, OPTIONS)[1][0].message


def test_what_became_of_a_script_is_a_sentence(tmp_path):
    op_files(tmp_path, "x", entry=OPEN.replace('op = "mylib:op"', 'op_script = "script.py"'))
    (tmp_path / "script.py").write_text("import sys\nsys.stdin.read()\nsys.exit(3)\n")
    # An interpreter that imports NumPy may take longer than the limit of the calls in the other tests.
    _, findings = checked(tmp_path, replace(OPTIONS, case_seconds=30.0))
    assert findings[0].message.startswith("The op failed: script.py ended with exit code 3")


@pytest.mark.parametrize(("wrong", "words"), [('["row"]', "`[ops.dims]`"), ('["z.size"]', "`[ops.args]`")])
def test_unknown_names_refer_to_the_tables_of_ops(tmp_path, wrong, words):
    op_files(tmp_path, "2 * x", entry=OPEN.replace('["rows", "cols"]', wrong).replace("rows = ", "lines = "))
    (finding,) = load(tmp_path / "gpuemu.toml").findings
    assert words in finding.message
    assert "kernels" not in finding.message
