"""CuTe DSL has an environment of its own: `make test-cute`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from support.language_programs import ProgramRunner, ignores_collection
from support.lsp_editor import Editor, open_editor


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return ignores_collection(collection_path, "nvidia_cutlass_dsl", "GPUEMU_REQUIRE_CUTE")


@pytest.fixture
def gpuemu_run(tmp_path: Path) -> ProgramRunner:
    return ProgramRunner(tmp_path)


@pytest_asyncio.fixture
async def editor(tmp_path: Path) -> AsyncIterator[Editor]:
    async with open_editor(tmp_path) as editor:
        yield editor
