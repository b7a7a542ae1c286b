"""The debug adapter as its clients run it: messages on standard input and output, a worker that records."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import numpy as np
import pytest
from support.corpus import copy_kernels
from support.debug_client import DebugClient, RefusedError
from support.recordings import MadeLaunch, record

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.recordings.reader import read_recording
from gpuemu_lsp.engine.store import Store
from gpuemu_lsp.engine.subjects.request import CheckOptions
from gpuemu_lsp.engine.workers.system import descendants


@pytest.fixture(scope="module")
def stored(tmp_path_factory) -> tuple[Path, str]:
    root = tmp_path_factory.mktemp("project")
    copy_kernels(["odd_reduce_buggy"], root)
    (request,) = collect([], CheckOptions(cases=6), root).requests
    for _ in check_kernel(request, lambda *_: None):
        pass
    with Store(root) as store:
        return root, store.failures(1)[0].case


def test_a_client_stops_at_the_finding_steps_back_and_leaves(stored):
    root, case = stored
    with DebugClient() as client:
        stop = client.start(root, case)
        assert stop["reason"] == "exception" and "expected" in stop["text"]
        assert client.frames(stop["threadId"])[0]["line"] == 13
        client.request("stepBack", threadId=stop["threadId"])
        client.event("stopped")
        assert client.scope("Locals")["size"] == "1"
        assert client.evaluate("threadIdx.x") == "0"
        with pytest.raises(RefusedError, match="not supported"):
            client.request("setVariable")
        client.request("disconnect")
        assert client.process.wait(20) == 0


def test_a_session_whose_worker_is_killed_ends(stored):
    root, case = stored
    with DebugClient() as client:
        client.start(root, case)
        os.kill(max(descendants(client.process.pid)), signal.SIGKILL)
        client.event("terminated")
        assert any("SIGKILL" in one["body"]["output"] for one in client.events if one["event"] == "output")
        with pytest.raises(RefusedError, match="nothing is being debugged"):
            client.request("threads")
        client.request("disconnect")
        assert client.process.wait(20) == 0


def test_a_launch_that_is_not_possible_says_why(stored):
    root, _ = stored
    with DebugClient() as client:
        assert client.request("initialize", adapterID="gpuemu")["supportsStepBack"]
        with pytest.raises(RefusedError, match="nothing is being debugged"):
            client.request("threads")
        with pytest.raises(RefusedError, match='"case" is the id of a stored failing case'):
            client.request("launch", root=str(root))
        with pytest.raises(RefusedError, match="there is no stored case '7'"):
            client.request("launch", root=str(root), case="7")
        with pytest.raises(RefusedError, match="start another session"):
            client.request("launch", root=str(root), case="8")


def test_a_kernel_is_debugged_at_chosen_sizes(stored):
    root, _ = stored
    with DebugClient() as client:
        client.request("initialize", adapterID="gpuemu")
        with pytest.raises(RefusedError, match="the size cols of 'odd_reduce_buggy' is missing"):
            client.request("launch", root=str(root), kernel="odd_reduce_buggy", dims={"rows": 2})
    with DebugClient() as client:
        client.request("initialize", adapterID="gpuemu")
        # With two columns the reduction is right.
        launched = client.send("launch", root=str(root), kernel="odd_reduce_buggy", dims={"rows": 2, "cols": 1})
        client.event("initialized")
        client.request("configurationDone")
        client.result(launched)
        assert client.event("stopped")["reason"] == "entry"
        assert client.evaluate("cols") == "1"


SCALE = """__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}
"""


@pytest.fixture
def launched(tmp_path) -> tuple[Path, str]:
    """A project whose kernel is registered, with a recorded launch of it."""
    source = tmp_path / "scale.cu"
    source.write_text(SCALE)
    entry = '[[kernels]]\nname = "scale"\nsource = "scale.cu"\nreference = "scale.py:scale"\n'
    (tmp_path / "gpuemu.toml").write_text(entry)
    (tmp_path / "scale.py").write_text("def scale(x, n):\n    return {'y': 2 * x}\n")
    values = np.arange(5, dtype=np.float32)
    made = MadeLaunch((values, np.zeros(5, np.float32), 5), 1, 32, frozenset({1}), {1: 2 * values})
    recording = read_recording(record(source, "scale", [made]))
    return tmp_path, recording.launches[0].digest


@pytest.mark.parametrize("registered", [False, True])
def test_a_recorded_launch_is_debugged_with_its_values(launched, registered):
    root, launch = launched
    if not registered:
        (root / "gpuemu.toml").unlink()
    with DebugClient() as client:
        client.request("initialize", adapterID="gpuemu")
        with pytest.raises(RefusedError, match="no recording has a launch 'x' of 'scale'"):
            client.request("launch", root=str(root), kernel="scale", launch="x")
    with DebugClient() as client:
        client.request("initialize", adapterID="gpuemu")
        sent = client.send("launch", root=str(root), kernel="scale", launch=launch)
        client.event("initialized")
        client.request("configurationDone")
        client.result(sent)
        assert client.event("stopped")["reason"] == "entry"
        assert (client.evaluate("n"), client.evaluate("x[3]"), client.evaluate("blockDim.x")) == ("5", "3", "32")


def test_two_sessions_at_once_do_not_disturb_each_other(stored):
    root, case = stored
    with DebugClient() as first, DebugClient() as second:
        stops = [client.start(root, case) for client in (first, second)]
        for _ in range(3):
            first.request("stepBack", threadId=stops[0]["threadId"])
            first.event("stopped")
        assert second.frames(stops[1]["threadId"])[0]["line"] == 13
        os.kill(max(descendants(first.process.pid)), signal.SIGKILL)
        first.event("terminated")
        second.request("stepBack", threadId=stops[1]["threadId"])
        second.event("stopped")
        assert second.scope("Locals")["size"] == "1"
