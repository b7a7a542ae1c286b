"""Checks on a Dask cluster on this machine: same results as a local check, also when a Dask worker is killed."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import pytest

from gpuemu_lsp.cli.gpuemu import main as gpuemu
from gpuemu_lsp.engine.jobs.cluster import Cluster, ClusterError
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.jobs.run import run_requests
from gpuemu_lsp.engine.jobs.table import FUNCTIONS, PRELOAD
from gpuemu_lsp.engine.subjects.request import CheckOptions
from gpuemu_lsp.engine.workers.pool import Pool

distributed = pytest.importorskip("distributed", reason="the extra [dask] is not installed")

ENTRY = """\
[[kernels]]
name = "{name}"
source = "k.cu"
entry = "{name}"
reference = "ref.py"
[kernels.dims]
n = {{ min = 1, max = 64 }}
[kernels.args]
x = {{ in = ["n"] }}
y = {{ out = ["n"] }}
n = "n"
[kernels.launch]
grid = 1
block = 64
"""
KERNEL = "__global__ void {name}(const float* x, float* y, int n) {{ if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] * {factor}f; }}\n"
REFERENCE = """\
import os, pathlib, time
def reference(inputs, **kwargs):
    started = pathlib.Path(__file__).with_name("started")
    if not started.exists():
        started.touch()
    time.sleep(0.05)
    return inputs["x"] * 2.0
"""


@pytest.fixture
def targets(tmp_path):
    factors = {"good": 2.0, "bad": 2.5, "worse": 3.0, "fine": 2.0}
    (tmp_path / "gpuemu.toml").write_text("".join(ENTRY.format(name=name) for name in factors))
    (tmp_path / "k.cu").write_text("".join(KERNEL.format(name=name, factor=factor) for name, factor in factors.items()))
    (tmp_path / "ref.py").write_text(REFERENCE)
    return collect([str(tmp_path)], CheckOptions(cases=40), tmp_path)


@pytest.fixture
def local(targets):
    """The run of the same targets in a local pool, with an empty store."""
    with Pool(FUNCTIONS, size=2, preload=PRELOAD) as pool:
        run = run_requests(targets.requests, targets.findings, targets.root, pool)
    Path(targets.root, "started").unlink()
    for path in Path(targets.root, ".gpuemu").iterdir():
        path.unlink()
    return run


def results(run):
    return [(kernel.name, kernel.status, kernel.cases, kernel.measured) for kernel in run.kernels], run.findings


def test_a_cluster_gives_the_same_results_when_a_worker_is_killed(targets, local):
    with (
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, host="127.0.0.1", dashboard_address="127.0.0.1:0", silence_logs=50
        ) as own,
        distributed.Client(own, set_as_default=False) as client,
        Cluster(own.scheduler_address, 2) as cluster,
    ):
        killed: list[int] = []

        def kill_busy_worker() -> None:
            while not Path(targets.root, "started").exists():
                time.sleep(0.02)
            pids = client.run(os.getpid)
            busy = next(address for address, tasks in client.processing().items() if tasks)
            os.kill(pids[busy], signal.SIGKILL)
            killed.append(pids[busy])

        killer = threading.Thread(target=kill_busy_worker)
        killer.start()
        run = run_requests(targets.requests, targets.findings, targets.root, cluster)
        killer.join()
    assert killed
    assert results(run) == results(local)
    assert [kernel.status for kernel in run.kernels] == ["passed", "failed", "failed", "passed"]


def test_command_with_a_local_cluster(targets, local, capsys, monkeypatch):
    monkeypatch.chdir(targets.root)
    assert gpuemu(["test", "--quick", "--dask", "local", "--jobs", "1"]) == 1
    text = capsys.readouterr().out
    assert "4 kernels: 2 passed, 2 failed" in text
    assert gpuemu(["fuzz", "--op", "good", "--iterations", "3", "--dask", "local", "--jobs", "1"]) == 0


def test_unreachable_scheduler_is_an_error(targets, capsys, monkeypatch):
    monkeypatch.chdir(targets.root)
    monkeypatch.setattr("gpuemu_lsp.engine.jobs.cluster._SECONDS_TO_CONNECT", 0.5)
    with pytest.raises(ClusterError, match="does not answer"):
        Cluster("127.0.0.1:1", 1)
    assert gpuemu(["test", "--dask", "127.0.0.1:1"]) == 2
    assert "does not answer" in capsys.readouterr().err
