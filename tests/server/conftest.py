"""Fixtures of the server tests: a server process with workers, driven over stdio, in its own workspace."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from pytest_lsp import make_test_lsp_client
from support.lsp_editor import COMMAND, PATIENCE, Editor, attach


@pytest_asyncio.fixture
async def editor(tmp_path: Path) -> AsyncIterator[Editor]:
    client = make_test_lsp_client()
    editor = Editor(client, tmp_path)
    attach(editor)
    await client.start_io(*COMMAND)
    yield editor
    if client.capabilities is not None:
        await asyncio.wait_for(client.shutdown_session(), PATIENCE)
    elif not client.stopped:
        client.exit(None)  # a test that did not start the session: the server waits for it
    await client.stop()
    assert editor.violations == []


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
