"""Ops in the project's own interpreter, where that is not the one of gpuemu-lsp."""

from __future__ import annotations

import sys
import venv
from pathlib import Path

import pytest

from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.subjects.ops.preparation import library_of
from gpuemu_lsp.engine.subjects.request import CheckOptions
from tests.unit.subjects.test_ops import ENTRY, SOFTMAX, checked, write

OPTIONS = CheckOptions(cases=4, case_seconds=20.0)


@pytest.fixture(scope="module")
def environment(tmp_path_factory):
    """Return a virtual environment with NumPy and a package ``rowlib`` that gpuemu-lsp's own does not have."""
    folder = tmp_path_factory.mktemp("project") / ".venv"
    venv.create(folder, symlinks=True)
    packages = next(folder.glob("lib/python*/site-packages"))
    numpy = Path(sys.modules["numpy"].__file__).parent
    for name in ("numpy", "numpy.libs"):
        if (numpy.parent / name).exists():
            (packages / name).symlink_to(numpy.parent / name)
    (packages / "rowlib.py").write_text(SOFTMAX + "\n\nprint('imported')\n")
    info = packages / "rowlib-1.4.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: row-lib\nVersion: 1.4\n")
    (info / "top_level.txt").write_text("rowlib\n")
    return folder


@pytest.fixture
def project(tmp_path, environment):
    """Return a project folder whose environment this is."""
    (tmp_path / ".venv").symlink_to(environment, target_is_directory=True)
    return tmp_path


def test_an_op_of_a_package_in_the_environment_of_the_project(project):
    write(project, ENTRY.replace("mylib:", "rowlib:"))
    report, findings = checked(project, OPTIONS)
    assert (report.status, findings) == ("passed", [])
    assert report.cases.run >= 4
    (spec,) = load(project / "gpuemu.toml").kernels
    assert library_of(spec.op) == ("row-lib", "1.4")


def test_the_interpreter_of_the_entry(tmp_path, environment):
    entry = ENTRY.replace("mylib:softmax", "rowlib:softmax")
    key = f'python = "{environment}/bin/python"\nreference'
    write(tmp_path, entry.replace("reference", key, 1))
    assert checked(tmp_path, OPTIONS)[0].status == "passed"
    write(tmp_path, entry.replace("reference", 'python = "missing/bin/python"\nreference', 1))
    (finding,) = load(tmp_path / "gpuemu.toml").findings
    assert "`missing/bin/python` does not exist" in finding.message


FAULTS = {
    "wrong": ("e / e.sum(axis=1, keepdims=True)", "e / e.sum()", "numeric/tolerance-exceeded", ""),
    "shape": ("return e /", "return e[:, :1] /", "numeric/shape-mismatch", ""),
    "nothing": ("    return e / e.sum", "    e / e.sum", "op/wrong-result", "returned nothing"),
    "object": ("return e /", "return object() #", "op/wrong-result", "object"),
    "raises": ("return e /", "raise KeyError('k') #", "op/error", "KeyError: 'k'"),
    "changes": ("    e =", "    x += 1\n    e =", "numeric/input-modified", "x"),
    "exits": ("return e /", "raise SystemExit(3) #", "op/error", "SystemExit: 3"),
    "ends": ("return e /", "__import__('os')._exit(7) #", "op/error", "exit code 7"),
    "strides": (
        "e = np.exp(x",
        "x = np.frombuffer(x.base, x.dtype)[: x.size].reshape(x.shape)\n    e = np.exp(x",
        None,
        "",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_faults_are_found(project, name):
    before, after, rule, words = FAULTS[name]
    text = SOFTMAX.replace(before, after)
    assert text != SOFTMAX
    write(project, op=text)
    report, findings = checked(project, OPTIONS)
    assert report.status == "failed"
    assert rule is None or rule in {finding.rule for finding in findings}
    assert words in findings[0].message


def test_an_exception_is_on_its_line(project):
    write(project, op=SOFTMAX.replace("    return", "    raise ValueError('no')\n    return"))
    _, findings = checked(project, OPTIONS)
    assert [(Path(one.place.path).name, one.place.range.start.line) for one in findings] == [("mylib.py", 6)]


def test_a_call_that_does_not_return_is_ended_and_the_next_runs(project):
    write(project, op=SOFTMAX.replace("    e = ", "    while x.shape[0] > 1: pass\n    e = "))
    report, findings = checked(project, CheckOptions(cases=3, case_seconds=1.0))
    assert report.status == "failed"
    assert any("did not return within 1 s" in finding.message for finding in findings)


def test_what_is_missing_is_named_with_the_interpreter(project, tmp_path_factory):
    python = project / ".venv/bin/python"
    write(project, ENTRY.replace("mylib:", "no_such_library:"))
    report, (finding,) = checked(project, OPTIONS)
    assert (report.status, finding.rule) == ("not-executed", "engine/not-executed")
    assert (
        f"no_such_library is not installed there. Install it: {python} -m pip install no_such_library"
        in finding.message
    )
    write(project, op="1 / 0\n" + SOFTMAX)
    report, (finding,) = checked(project, OPTIONS)
    assert "ZeroDivisionError" in finding.message
    assert (Path(finding.place.path).name, finding.place.range.start.line) == ("mylib.py", 0)
    write(project, ENTRY.replace("mylib:softmax", "mylib:soft"))
    report, (finding,) = checked(project, OPTIONS)
    assert (report.status, finding.rule) == ("error", "config/bad-value")


def test_an_environment_without_numpy(tmp_path):
    venv.create(tmp_path / ".venv", symlinks=True)
    write(tmp_path)
    report, (finding,) = checked(tmp_path, OPTIONS)
    assert (report.status, finding.rule) == ("not-executed", "engine/not-executed")
    assert (
        f"numpy is not installed there. Install it: {tmp_path}/.venv/bin/python -m pip install numpy" in finding.message
    )


def test_an_interpreter_that_cannot_be_started(tmp_path):
    python = tmp_path / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    python.touch()
    write(tmp_path)
    report, (finding,) = checked(tmp_path, OPTIONS)
    assert (report.status, finding.rule) == ("not-executed", "engine/not-executed")
    assert f"the interpreter {python} cannot be started: Permission denied" in finding.message
