"""The toolchain where the user's folders cannot be written."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.parametrize("changed", [{"HOME": "{file}/home"}, {"CUPY_CACHE_DIR": "{file}/cache"}])
def test_a_folder_that_cannot_be_made_for_cupy(tmp_path: Path, changed: dict[str, str]) -> None:
    file = tmp_path / "file"
    file.touch()
    environment = {name: value for name, value in os.environ.items() if name != "CUPY_CACHE_DIR"}
    environment |= {name: value.format(file=file) for name, value in changed.items()}
    script = "from gpuemu_lsp.engine.compile.toolchain import toolchain; print(toolchain())"
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=120)
    assert done.stdout.startswith("NVRTC "), done.stderr
