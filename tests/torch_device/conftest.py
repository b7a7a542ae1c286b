"""PyTorch's device has an environment of its own: `make test-torch`. Elsewhere these tests are skipped by name."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from gpuemu_lsp.engine.runtime.toolchain.torch_library import installed_torch
from gpuemu_lsp.engine.runtime.toolchain.wheels import ProgramBuildError, nvcc_folder


def missing() -> str | None:
    """Return what this environment lacks, None if it has all."""
    torch = installed_torch()
    if torch is None or torch.cuda is not None:
        return "the CPU build of PyTorch"
    try:
        nvcc_folder()
    except ProgramBuildError as error:
        return str(error)
    return None if shutil.which("ninja", path=f"{Path(sys.executable).parent}:{os.environ['PATH']}") else "ninja"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    lacking = missing()
    if lacking is None:
        return
    if os.environ.get("GPUEMU_REQUIRE_TORCH"):
        raise pytest.UsageError(f"missing: {lacking}")
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.skip(reason=f"needs {lacking}"))


@pytest.fixture(scope="session", autouse=True)
def extensions(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Build extensions in a folder of this session."""
    os.environ["TORCH_EXTENSIONS_DIR"] = str(tmp_path_factory.mktemp("extensions"))


class Runner:
    """Runs programs of Python under ``gpuemu run``."""

    def __call__(self, *words: str, folder: Path | None = None) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "gpuemu_lsp.cli.gpuemu", "run", *words]
        return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=850, check=False)


@pytest.fixture(scope="session")
def gpuemu_run() -> Runner:
    return Runner()
