"""Known failure modes of language servers, one test each: numbers 1 and 2 of test_regressions, about processes."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest
from lsprotocol import types
from support.lsp_editor import Editor
from support.processes import alive, descendants, workers
from support.server_kernels import SPIN, WRONG, write

WAITING = """\
import pathlib, time
folder = pathlib.Path(__file__).parent
def reference(inputs, **kwargs):
    (folder / "waiting").touch()
    while not (folder / "go").exists():
        time.sleep(0.01)
    return 2.0 * inputs["x"]
"""


async def _spinning(editor: Editor) -> None:
    write(editor.root, SPIN)
    await editor.start()
    editor.open("scale.cu")
    await editor.until(lambda: "begin" in editor.progress)


def _pids(editor: Editor) -> set[int]:
    return descendants(editor.client._server.pid)


async def test_01_no_process_survives_a_killed_server(editor: Editor):
    await _spinning(editor)
    await editor.until(lambda: len(_pids(editor)) >= 3)  # the server, the fork server, a worker
    pids = _pids(editor)
    os.kill(editor.client._server.pid, signal.SIGKILL)
    deadline = time.monotonic() + 5
    while alive(pids) and time.monotonic() < deadline:
        await asyncio.sleep(0.02)
    assert not alive(pids)
    editor.client.capabilities = None


async def test_01_a_killed_worker_affects_one_check_only(editor: Editor):
    await _spinning(editor)
    server = editor.client._server.pid
    while editor.progress.count("end") < editor.progress.count("begin"):  # it begins again once
        for worker in workers(server):
            os.kill(worker, signal.SIGKILL)
        await asyncio.sleep(0.3)
    await editor.idle()
    # A worker that died with the reference is an error of the reference, with a hint on the kernel.
    shown = {str(item.code) for item in editor.last("scale.cu").diagnostics}
    assert shown & {"engine/worker-crashed", "sync/hang", "engine/timeout", "reference/error"}
    editor.save("scale.cu", WRONG)
    await editor.idle()
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}


async def test_02_shutdown_with_requests_and_commands_in_flight(editor: Editor):
    await _spinning(editor)
    waiting = [
        asyncio.ensure_future(editor.client.protocol.send_request_async("gpuemu/waitForIdle", {})),
        asyncio.ensure_future(editor.client.protocol.send_request_async("gpuemu/failures", {})),
        asyncio.ensure_future(
            editor.client.workspace_execute_command_async(
                types.ExecuteCommandParams(command="gpuemu.reproduce", arguments=[editor.uri("scale.cu"), "1"])
            )
        ),
    ]
    await asyncio.wait_for(editor.client.shutdown_async(None), 2)
    await asyncio.wait(waiting, timeout=1)  # responses that this client no longer reads
    pids = _pids(editor)
    editor.client.exit(None)
    await editor.until(lambda: not alive(pids))
    editor.client.capabilities = None


@pytest.mark.parametrize("kind", ["fifo", "/dev/zero"])
async def test_01_a_file_that_becomes_a_fifo_or_a_device_during_its_check_stops_nothing(editor: Editor, kind: str):
    write(editor.root, WRONG)
    (editor.root / "ref.py").write_text(WAITING)
    await editor.start()
    editor.open("scale.cu")
    await editor.until((editor.root / "waiting").exists)
    path = editor.root / "scale.cu"
    path.unlink()
    if kind == "fifo":
        os.mkfifo(path)
    else:
        path.symlink_to(kind)
    (editor.root / "go").touch()
    await asyncio.wait_for(editor.idle(), 20)  # the fingerprint of its finding reads the line
    assert editor.codes("scale.cu") == {"numeric/tolerance-exceeded"}
