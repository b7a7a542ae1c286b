"""Ops on the command line: verdicts, formats, stored cases, and the upgrade of a library."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from gpuemu_lsp.cli.gpuemu import main as gpuemu

CONFIG = """[[ops]]
name = "double"
op = "fakelib:double"
reference = "ref.py:double"
[ops.dims]
n = { max = 40 }
[ops.args]
x = { in = ["n"] }
y = { out = ["n"] }

[[ops]]
name = "negate"
op = "fakelib:negate"
reference = "ref.py:negate"
[ops.dims]
n = { max = 40 }
[ops.args]
x = { in = ["n"] }
y = { out = ["n"] }
"""
LIBRARY = "def double(x):\n    return 2 * x\n\n\ndef negate(x):\n    return -x\n"
REFERENCE = "def double(inputs):\n    return 2 * inputs['x']\n\n\ndef negate(inputs):\n    return -inputs['x']\n"


@pytest.fixture
def run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
    install("1.0")
    Path("gpuemu.toml").write_text(CONFIG)
    Path("ref.py").write_text(REFERENCE)

    def call(*arguments: str) -> tuple[int, str]:
        code = gpuemu(list(arguments))
        return code, capsys.readouterr().out

    return call


def install(version: str, text: str = LIBRARY) -> None:
    for folder in Path().glob("fakelib-*.dist-info"):
        for file in folder.iterdir():
            file.unlink()
        folder.rmdir()
    folder = Path(f"fakelib-{version}.dist-info")
    folder.mkdir()
    (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: fakelib\nVersion: {version}\n")
    (folder / "top_level.txt").write_text("fakelib\n")
    Path("fakelib.py").write_text(text)


WRONG = LIBRARY.replace("2 * x", "2 * abs(x)")


def test_verdicts_exit_codes_and_formats(run):
    assert run("test", "--quick")[0] == 0
    install("1.0", WRONG)
    code, text = run("ci", "--quick", "--format", "json")
    assert code == 1
    statuses = {kernel["name"]: (kernel["status"], kernel["executor"]) for kernel in json.loads(text)["kernels"]}
    assert statuses == {"double": ("failed", "python"), "negate": ("passed", "python")}
    for form, expected in (("junit", '<failure type="numeric/'), ("sarif", '"ruleId": "numeric/'), ("html", "double")):
        code, text = run("ci", "--quick", "--format", form)
        assert code == 1 and expected in text


def test_a_failing_case_is_stored_reproduced_and_minimised_by_calling_the_op(run):
    install("1.0", WRONG)
    assert run("fuzz", "--op", "double", "--iterations", "4")[0] == 1
    listed = json.loads(run("failures", "--format", "json")[1])
    case = str(listed["failures"][0]["case"])
    assert "still fails" in run("reproduce", case)[1]
    smaller = run("minimize", case)[1]
    assert "n = 1" in smaller
    install("1.0")
    found = re.search(r"-> (\d+)", smaller)
    assert found is not None
    assert "fixed" in run("reproduce", found[1])[1]


def test_the_upgrade_of_a_library_names_the_op_that_changed(run):
    assert run("baseline", "v1")[0] == 0
    install("1.1", LIBRARY.replace("-x", "-x * 1.0001"))
    code, text = run("diff", "--baseline", "v1", "--fail-on-regression")
    assert code == 1
    assert "fakelib 1.0 -> 1.1: 1 regressed, 1 unchanged" in text
    assert "negate (float32): regression" in text and "double (" not in text


@pytest.mark.parametrize("arguments", [["test"], ["ci"], ["report"], ["baseline", "v1"], ["coverage"]])
def test_an_op_that_cannot_be_imported_is_not_clean(run, arguments):
    Path("fakelib.py").write_text("import no_such_package\n")
    assert run(*arguments)[0] == 2


def test_what_a_script_for_a_case_of_an_op_would_need_is_said(run):
    install("1.0", WRONG)
    run("fuzz", "--op", "double", "--iterations", "4")
    case = str(json.loads(run("failures", "--format", "json")[1])["failures"][0]["case"])
    code, _ = run("reproduce", case, "--script", "case.py")
    assert code == 2 and not Path("case.py").exists()
