"""Fixtures of the server tests: a server process with workers, driven over stdio, in its own workspace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.lsp_editor import Editor, open_editor


@pytest_asyncio.fixture
async def editor(tmp_path: Path) -> AsyncIterator[Editor]:
    async with open_editor(tmp_path) as editor:
        yield editor


@pytest.fixture(autouse=True)
def _own_configuration(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("GPUEMU_CONFIG", raising=False)
