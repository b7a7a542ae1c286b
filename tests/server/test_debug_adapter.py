"""The debug adapter as its clients run it: messages on standard input and output, a worker that records."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest
from support.corpus import copy_kernels
from support.debug_client import DebugClient, RefusedError

from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.jobs.requests.targets import collect
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
