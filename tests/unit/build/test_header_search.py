"""Headers that no build file explains are searched for in the project of a file, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.build.context import build_context


def _include_dirs(root: Path) -> tuple[str, ...]:
    """Return the include directories of a kernel in ``src/deep``, whose header is in ``src/other``."""
    kernel, header = root / "src" / "deep" / "k.cu", root / "src" / "other" / "tools.h"
    for path in (kernel, header):
        path.parent.mkdir(parents=True)
    header.write_text("#pragma once\n")
    kernel.write_text('#include "tools.h"\n__global__ void k() {}\n')
    return build_context(kernel.as_posix(), kernel.read_text()).include_dirs


@pytest.mark.parametrize("name", ["Makefile", "README.md", "pyproject.toml", "LICENSE"])
def test_a_header_elsewhere_in_the_project_is_found(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    assert _include_dirs(tmp_path) == ((tmp_path / "src" / "other").as_posix(),)


def test_a_header_of_a_folder_above_that_is_not_a_project_is_not_found(tmp_path: Path) -> None:
    assert _include_dirs(tmp_path) == ()
