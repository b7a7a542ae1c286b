"""What may happen to a server from outside: signals, damaged files, missing folders, small limits, long messages.

After each the server gives the verdict that it always gives, within the time that a client waits, or it has ended; of
its processes and folders nothing is left.
"""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from support.lsp_editor import COMMAND, Editor, open_editor
from support.processes import alive, descendants
from support.server_kernels import GOOD, SPIN, WRONG, write

_VERDICT = {"numeric/tolerance-exceeded"}


async def _is_judged(editor: Editor, text: str = WRONG, codes: set[str] = _VERDICT) -> None:
    """Open a kernel, or save it again, and wait for its verdict."""
    if "scale.cu" in editor.versions:
        editor.save("scale.cu", text)
    else:
        write(editor.root, text)
        await editor.start()
        editor.open("scale.cu")
    await editor.idle()
    assert editor.codes("scale.cu") - {"engine/not-stored"} == codes


@pytest.mark.parametrize("numbers", [[signal.SIGPIPE], [signal.SIGSTOP, signal.SIGCONT]], ids=["pipe", "stop"])
async def test_a_signal_that_ends_no_server_changes_nothing(editor: Editor, numbers: list[signal.Signals]):
    await _is_judged(editor)
    for number in numbers:
        os.kill(editor.client._server.pid, number)
        await asyncio.sleep(0.1)
    await _is_judged(editor, GOOD, set())


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGKILL], ids=lambda one: one.name)
@pytest.mark.parametrize("phase", ["idle", "typing", "check all", "fuzz"])
async def test_nothing_is_left_of_a_server_that_is_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, phase: str
):
    (tmp_path / "temporary").mkdir()
    (tmp_path / "project").mkdir()
    monkeypatch.setenv("TMPDIR", str(tmp_path / "temporary"))
    shared = set(Path("/dev/shm").iterdir())
    async with open_editor(tmp_path / "project") as editor:
        await _is_judged(editor)
        waiting: list[asyncio.Future[object]] = []
        if phase == "typing":
            for length in range(0, len(WRONG), 9):
                editor.replace("scale.cu", WRONG[:length])
        elif phase != "idle":
            editor.save("scale.cu", SPIN)
            command, *arguments = (
                ["gpuemu.checkAll"] if phase == "check all" else ["gpuemu.fuzz", editor.uri("scale.cu")]
            )
            waiting.append(asyncio.ensure_future(editor.command(command, *arguments)))
            await editor.until(lambda: editor.progress.count("begin") > editor.progress.count("end"))
        pids = descendants(editor.client._server.pid)
        os.kill(editor.client._server.pid, number)
        await editor.until(lambda: not alive(pids))
        for one in waiting:
            one.cancel()
        editor.client.capabilities = None
    assert not list((tmp_path / "temporary").iterdir())
    assert set(Path("/dev/shm").iterdir()) <= shared


def _cut(content: bytes) -> bytes:
    return content[: len(content) // 2]


def _zeros(content: bytes) -> bytes:
    return bytes(len(content))


def _other_bytes(content: bytes) -> bytes:
    """Return other bytes in 20 places, the same each time."""
    changed = bytearray(content)
    for place in range(20):
        changed[place * 7919 % len(changed)] ^= 0x5A
    return bytes(changed)


@pytest.mark.parametrize("damage", [_cut, _zeros, _other_bytes])
async def test_damaged_files_change_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: Callable[[bytes], bytes]
):
    """Of the store and of the caches, which another process may leave half written."""
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path / "cache"))
    (tmp_path / "project").mkdir()
    async with open_editor(tmp_path / "project") as editor:
        await _is_judged(editor)
    files = [path for path in (tmp_path / "cache").rglob("*") if path.is_file()]
    files.append(tmp_path / "project" / ".gpuemu" / "store.db")
    assert len(files) > 1
    for path in files:
        content = path.read_bytes()
        if content:
            path.write_bytes(damage(content))
    async with open_editor(tmp_path / "project") as editor:
        await editor.start()
        editor.open("scale.cu")
        await editor.idle()
        assert editor.codes("scale.cu") - {"engine/not-stored"} == _VERDICT


@pytest.mark.parametrize("variable", ["TMPDIR", "GPUEMU_CACHE_DIR"])
async def test_folders_that_cannot_be_written_change_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
):
    (tmp_path / "file").write_text("not a folder")
    (tmp_path / "project").mkdir()
    monkeypatch.setenv(variable, str(tmp_path / "file" / "folder"))
    async with open_editor(tmp_path / "project") as editor:
        await _is_judged(editor)


async def test_a_store_that_is_a_file_changes_no_verdict(editor: Editor):
    (editor.root / ".gpuemu").write_text("not a folder")
    await _is_judged(editor)


@pytest.mark.parametrize("limit", ["-n 48", "-f 2048", "-s 512"])
async def test_small_limits_change_no_verdict(tmp_path: Path, limit: str):
    """Of open files, of the size of files in blocks of 512 bytes, and of the stack in KiB."""
    async with open_editor(tmp_path, ["sh", "-c", f'ulimit {limit}; exec "$@"', "sh", *COMMAND]) as editor:
        await _is_judged(editor)


async def test_a_long_message_of_a_reference_is_cut(editor: Editor):
    write(editor.root, GOOD)
    (editor.root / "ref.py").write_text("def reference(inputs, **kwargs):\n    raise ValueError('x' * 5_000_000)\n")
    await editor.start()
    editor.open("scale.cu")
    await editor.idle()
    last = editor.last("scale.cu")
    assert last is not None
    messages = [item.message for item in last.diagnostics]
    assert any("ValueError" in message for message in messages)
    assert max(map(len, messages)) < 10_000
