"""Ops that only a program can run: the results that it sends count in the checks of the project until they are stale."""

from __future__ import annotations

import json
import os

import pytest

from gpuemu.client import Client
from gpuemu_lsp.cli.gpuemu import main as gpuemu_command

_TOML = """
[project]
name = "ops"

[[ops]]
name = "scale"
module = "wonderful"
reference = "ref.py"
execution_mode = "MODE"
input_names = ["x"]
[ops.dims]
n = { max = 40 }
[ops.args]
x = { in = ["n"] }
"""
_REFERENCE = """
def reference(inputs, **kwargs):
    return inputs["x"] * 3
"""


@pytest.fixture
def client(tmp_path, monkeypatch):
    (tmp_path / "gpuemu.toml").write_text(_TOML.replace("MODE", "client_side"))
    (tmp_path / "ref.py").write_text(_REFERENCE)
    monkeypatch.chdir(tmp_path)
    return Client()


def _right(inputs):
    return inputs["x"] * inputs["x"].dtype.type(3)


def _wrong(inputs):
    return inputs["x"] * inputs["x"].dtype.type(3.1)


def _fuzz(client, run_op, **options):
    return client.fuzz_op_client_side("scale", run_op, iterations=6, seed=42, **options)


def test_without_a_result_the_op_did_not_run(client, capsys):
    assert gpuemu_command(["test"]) == 2
    assert "no client has sent a result" in " ".join(capsys.readouterr().out.split())


def test_a_result_counts_with_its_age(client, tmp_path, capsys):
    assert not _fuzz(client, _right).failures
    assert gpuemu_command(["test"]) == 0
    assert "by a client, less than a minute ago" in capsys.readouterr().out
    (path,) = (tmp_path / ".gpuemu" / "client").glob("*.json")
    record = json.loads(path.read_text())
    path.write_text(json.dumps({**record, "sent": record["sent"] - 7300}))
    assert gpuemu_command(["test", "--format", "json"]) == 0
    (kernel,) = json.loads(capsys.readouterr().out)["kernels"]
    assert (kernel["status"], kernel["executor"], kernel["cases"]["run"]) == ("passed", "client", 6)
    assert gpuemu_command(["test"]) == 0
    assert "by a client, 2 hours ago" in capsys.readouterr().out


def test_a_wrong_result_is_an_error_with_its_case(client, capsys):
    found = _fuzz(client, _wrong)
    assert found.failed == 6
    assert gpuemu_command(["test"]) == 1
    text = capsys.readouterr().out
    assert str(found.failures[0].seed) in text
    assert "numeric/tolerance-exceeded" in text
    assert gpuemu_command(["reproduce", str(found.failures[0].seed)]) == 1


@pytest.mark.parametrize("change", ["reference", "entry", "program", "library"])
def test_a_stale_result_does_not_count(client, tmp_path, capsys, monkeypatch, change):
    (tmp_path / "program.py").write_text("def run(inputs):\n    return inputs['x'] * inputs['x'].dtype.type(3)\n")
    monkeypatch.syspath_prepend(tmp_path)
    installed = tmp_path / "wonderful-1.0.dist-info"
    installed.mkdir()
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: wonderful\nVersion: 1.0\n")
    namespace = {}
    path = str(tmp_path / "program.py")
    exec(compile((tmp_path / "program.py").read_text(), path, "exec"), namespace)  # noqa: S102
    assert not _fuzz(client, namespace["run"]).failures
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    assert gpuemu_command(["test"]) == 0
    match change:
        case "reference":
            (tmp_path / "ref.py").write_text(_REFERENCE.replace("3", "3.0"))
        case "entry":
            config = tmp_path / "gpuemu.toml"
            config.write_text(config.read_text().replace("max = 40", "max = 50"))
        case "program":
            (tmp_path / "program.py").write_text("")
        case _:
            (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: wonderful\nVersion: 1.1\n")
    capsys.readouterr()
    assert gpuemu_command(["test"]) == 2
    text = " ".join(capsys.readouterr().out.split())
    assert "Run the client again." in text
    assert {"reference": "ref.py has", "entry": "its entry", "program": "program.py", "library": "1.1"}[change] in text


def test_a_touched_comment_in_the_configuration_is_not_a_change(client, tmp_path):
    _fuzz(client, _right)
    config = tmp_path / "gpuemu.toml"
    config.write_text("# a comment\n" + config.read_text())
    assert gpuemu_command(["test"]) == 0


def test_a_tolerance_of_the_call_is_not_a_verdict_of_the_project(client):
    assert not _fuzz(client, _wrong, atol=100.0).failures
    assert gpuemu_command(["test"]) == 2


def test_submitted_outputs(client, tmp_path):
    (tmp_path / "gpuemu.toml").write_text(_TOML.replace("MODE", "daemon_orchestrated"))
    for case in client.get_test_batch("scale", count=4, seed=1):
        client.submit_output("scale", case["inputs"], _right(case["inputs"]), case["seed"])
    assert gpuemu_command(["test"]) == 0
    case = client.get_test_case("scale", seed=9)
    client.submit_output("scale", case["inputs"], _wrong(case["inputs"]), case["seed"])
    assert gpuemu_command(["test"]) == 1


def test_baselines_of_clients(client, capsys):
    assert not _fuzz(client, _right).failures
    assert client.store_baseline("v1") == ("scale",)
    assert client.compare_baseline("v1").unchanged == ("scale",)
    _fuzz(client, lambda inputs: _right(inputs) * inputs["x"].dtype.type(1 + 2**-9))
    worse = client.compare_baseline("v1")
    assert worse.regressions == ("scale",)


def test_the_finding_of_the_configuration_goes_with_a_result(client, tmp_path):
    from gpuemu_lsp.engine.project import load
    from gpuemu_lsp.server.checks.document_sync import _findings

    config = tmp_path / "gpuemu.toml"
    assert [one.rule for one in _findings(load(config))] == ["engine/not-executed"]
    _fuzz(client, _right)
    assert not _findings(load(config))
    (tmp_path / "ref.py").write_text("")
    (stale,) = _findings(load(config))
    assert "ref.py has changed" in stale.message
