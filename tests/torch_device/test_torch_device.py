"""PyTorch on the device, in programs that `gpuemu run` starts."""

from __future__ import annotations

import json
from pathlib import Path

HERE = Path(__file__).parent


def test_operators_and_streams_have_the_results_of_the_cpu_and_no_finding(gpuemu_run, tmp_path):
    result = tmp_path / "result.json"
    suite = ("pytest", "-c", str(HERE / "pytest.ini"), str(HERE / "on_device"))
    done = gpuemu_run("--format", "json", "--output", str(result), "-m", *suite[:1], "--", *suite[1:])
    assert " passed" in done.stdout, done.stdout + done.stderr
    assert "failed" not in done.stdout and "skipped" not in done.stdout, done.stdout
    assert json.loads(result.read_text())["findings"] == []


def test_what_is_refused_is_named_and_in_the_report(gpuemu_run, tmp_path):
    result = tmp_path / "result.json"
    done = gpuemu_run("--format", "json", "--output", str(result), str(HERE / "programs" / "refused.py"))
    assert done.returncode == 2, done.stderr
    assert done.stdout.splitlines() == [
        "NotImplementedError torch.cuda.CUDAGraph is not emulated (gpuemu)",
        "NotImplementedError torch.cuda.CUDAGraph is not emulated (gpuemu)",
        "NotImplementedError torch.multiprocessing with tensors of the device is not emulated (gpuemu)",
        "NotImplementedError aten::_cudnn_init_dropout_state is not emulated (gpuemu)",
    ]
    found = json.loads(result.read_text())["findings"]
    assert [(one["rule"], one["message"].split(" is not implemented")[0]) for one in found] == [
        ("api/unsupported", "torch.cuda.CUDAGraph"),
        ("api/unsupported", "torch.cuda.CUDAGraph"),
        ("api/unsupported", "torch.multiprocessing with tensors of the device"),
        ("api/unsupported", "aten::_cudnn_init_dropout_state"),
    ]
    assert [one["range"]["start"]["line"] for one in found] == [8, 9, 10, 11]
