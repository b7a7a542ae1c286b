"""Processes: shutdown, cleanup after kills, and libraries the server process never loads."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

from support.lsp_editor import COMMAND, Editor
from support.processes import alive, descendants
from support.server_kernels import GOOD, SPIN, write

_CLIENT = """
import subprocess, sys, time
server = subprocess.Popen(sys.argv[2:], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
server.stdin.write(open(sys.argv[1], "rb").read())
server.stdin.flush()
print(server.pid, flush=True)
time.sleep(600)
"""


async def test_shutdown_is_quick_with_a_check_in_flight(editor: Editor):
    write(editor.root, SPIN)
    await editor.start()
    editor.open("scale.cu")
    await editor.until(lambda: bool(editor.progress))
    waiting = asyncio.ensure_future(editor.idle())
    started = time.monotonic()
    await editor.client.shutdown_async(None)
    assert time.monotonic() - started < 1.0
    await asyncio.wait([waiting], timeout=1)  # a response that this client no longer reads
    pids = descendants(editor.client._server.pid)
    editor.client.exit(None)
    await editor.until(lambda: not alive(pids))
    assert editor.client._server.returncode in (0, None)
    editor.client.capabilities = None  # the fixture must not shut it down again


async def test_a_newer_save_kills_a_kernel_that_does_not_terminate(editor: Editor):
    write(editor.root, SPIN)
    await editor.start()
    editor.open("scale.cu")
    await editor.until(lambda: bool(editor.progress))
    editor.save("scale.cu", GOOD)
    await asyncio.wait_for(editor.idle(), 10)
    assert editor.found("scale.cu") == []


async def test_the_servers_own_process_loads_no_numerics(editor: Editor):
    write(editor.root)
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    mapped = Path(f"/proc/{editor.client._server.pid}/maps").read_text()
    assert not [name for name in ("numpy", "cupy", "llvmlite", "ml_dtypes", "nvrtc") if name in mapped]


def test_no_process_outlives_a_killed_client(tmp_path: Path):
    write(tmp_path, SPIN)
    root = tmp_path.as_uri()
    document = {"uri": f"{root}/scale.cu", "languageId": "cuda-cpp", "version": 1, "text": SPIN}
    messages = [
        {"id": 1, "method": "initialize", "params": {"processId": None, "rootUri": root, "capabilities": {}}},
        {"method": "initialized", "params": {}},
        {"method": "textDocument/didOpen", "params": {"textDocument": document}},
    ]
    bodies = [json.dumps({"jsonrpc": "2.0", **message}).encode() for message in messages]
    script = tmp_path / "messages"
    script.write_bytes(b"".join(b"Content-Length: %d\r\n\r\n%s" % (len(body), body) for body in bodies))
    client = subprocess.Popen(
        [sys.executable, "-c", _CLIENT, str(script), *COMMAND], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    )
    try:
        assert client.stdout is not None
        server = int(client.stdout.readline())
        deadline = time.monotonic() + 30
        while len(descendants(server)) < 3:  # the server, the fork server, a busy worker
            assert time.monotonic() < deadline
            time.sleep(0.05)
        pids = descendants(server)
    finally:
        os.kill(client.pid, signal.SIGKILL)
        client.wait()
        client.stdout.close()
    deadline = time.monotonic() + 2
    while alive(pids) and time.monotonic() < deadline:
        time.sleep(0.02)
    assert not alive(pids)
