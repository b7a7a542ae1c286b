"""TileLang has an environment of its own, which is not in CI: `make test-tilelang`."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.language_programs import ProgramRunner, ignores_collection


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    return ignores_collection(collection_path, "tilelang", "GPUEMU_REQUIRE_TILELANG")


@pytest.fixture
def gpuemu_run(tmp_path: Path) -> ProgramRunner:
    return ProgramRunner(tmp_path)
