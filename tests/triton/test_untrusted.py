"""An untrusted folder: whatever a client asks for, no module of it is imported."""

from __future__ import annotations

import asyncio
import contextlib
import sys
from pathlib import Path

import pytest_asyncio
from lsprotocol import types
from pygls.exceptions import JsonRpcException
from pytest_lsp import make_test_lsp_client
from support.lsp_editor import PATIENCE, Editor, attach
from support.untrusted import KERNELS, make_untrusted


@pytest_asyncio.fixture
async def editor(tmp_path, monkeypatch):
    """Start the server as an editor does: the installed program, in the folder of the workspace."""
    monkeypatch.setenv("GPUEMU_CACHE_DIR", str(tmp_path / ".cache"))
    folder = tmp_path / "theirs"
    folder.mkdir()
    client = make_test_lsp_client()
    editor = Editor(client, folder)
    attach(editor)
    await client.start_io(str(Path(sys.executable).parent / "gpuemu-lsp"), "--stdio", cwd=folder)
    yield editor
    await asyncio.wait_for(client.shutdown_session(), PATIENCE)
    await client.stop()


async def ask_everything(editor: Editor, name: str) -> None:
    """Send each request and each command that an editor has for a file and its kernels; errors are answers too."""
    uri, client = editor.uri(name), editor.client
    where = types.TextDocumentIdentifier(uri)
    lenses = await client.text_document_code_lens_async(types.CodeLensParams(where))
    for diagnostic in (editor.last(name) or types.PublishDiagnosticsParams(uri, [])).diagnostics:
        for action in (await editor.actions(name, diagnostic)).values():
            with contextlib.suppress(JsonRpcException):
                await editor.resolve(action)
    commands = [(lens.command.command, list(lens.command.arguments or ())) for lens in lenses]
    for kernel in KERNELS[name]:
        commands += [
            (f"gpuemu.{one}", [uri, kernel]) for one in ("check", "fuzz", "register", "acceptBaseline", "judge")
        ]
        commands += [("gpuemu.showArtifact", [uri, kernel, form]) for form in ("ptx", "sass", "ttir", "ttgir")]
        commands += [(f"gpuemu.{one}", [uri, "1", kernel]) for one in ("minimize", "reproduce")]
    for command, arguments in [*commands, ("gpuemu.checkAll", [])]:
        with contextlib.suppress(JsonRpcException):
            await editor.command(command, *arguments)
        await editor.idle()
    tests = (await editor.ask("gpuemu/discoverTests", {}))["tests"]
    for deep in (False, True):
        run = {"runId": f"{name}{deep}", "include": [test["id"] for test in tests], "exclude": [], "deep": deep}
        await editor.ask("gpuemu/runTests", run)
        await editor.idle()


async def test_no_module_of_an_untrusted_folder_is_imported(editor: Editor):
    imported = make_untrusted(editor.root)
    await editor.start(trusted=False)
    for name in KERNELS:
        editor.open(name)
    await editor.idle()
    for name in KERNELS:
        await ask_everything(editor, name)
        editor.save(name, (editor.root / name).read_text(encoding="utf-8") + "\n")
        await editor.idle()
    assert not imported.exists(), imported.read_text(encoding="utf-8")
    assert editor.codes("triton_kernels.py") | editor.codes("strings.py") == {"engine/not-executed"}


async def test_once_it_is_trusted_they_are(editor: Editor):
    imported = make_untrusted(editor.root, shadows=False)
    await editor.start(trusted=True)
    editor.open("triton_kernels.py")
    await editor.idle()
    assert "memory/out-of-bounds" in editor.codes("triton_kernels.py")
    assert imported.exists()
