"""One session of VS Code: a program with eight unregistered kernels is run, edited, and checked on its launches.

It needs nvcc, as programs do, and the editor.
"""

from __future__ import annotations

import re
import shutil
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from support.nvcc import required_nvcc
from support.vscode import SCRIPTS, build, installed, run_script, with_server

SOURCE = Path(__file__).parents[2] / "programs/recorded/eight_kernels.cu"
KERNELS = ["saxpy", "row_sum", "gather", "csr_multiply", "filter", "scale_struct", "sum_tables", "histogram"]


@pytest.mark.timeout(600)
def test_after_one_run_a_save_checks_eight_kernels_on_their_recorded_launches(
    tmp_path: Path, editor_environment: dict[str, str], record_property: Callable[[str, object], None]
) -> None:
    required_nvcc()
    tools = installed()
    vsix = build(tools)
    folder = tmp_path / "project"
    folder.mkdir()
    shutil.copy(SOURCE, folder / "program.cu")
    facts = {
        "folder": str(folder),
        "vsix": str(vsix),
        "python": sys.executable,
        "kernels": KERNELS,
        "bug": ["if (i < n) y[i] = a", "if (i <= n) y[i] = a"],
    }
    output = run_script(tools, SCRIPTS / "recorded.mjs", tmp_path, with_server(editor_environment), facts)
    assert "scenario passed" in output
    seconds = re.search(r"^([\d.]+) s after the save$", output, re.MULTILINE)
    assert seconds is not None
    record_property("seconds from the save to the finding", seconds[1])
