"""The project of all editor tests: a folder with kernels of the corpus, two of them buggy."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import pytest

from support.corpus import copy_kernels

KERNELS = ("row_softmax_buggy", "row_softmax", "gelu", "halo_buggy")
REQUIRED = "GPUEMU_REQUIRE_EDITORS"
SERVER = (sys.executable, "-m", "gpuemu_lsp", "--stdio")


@dataclass(frozen=True)
class EditorProject:
    """A folder with a ``gpuemu.toml``, a buggy softmax to fix, and a few other kernels."""

    root: Path

    @property
    def buggy(self) -> Path:
        """The softmax that overflows on large values."""
        return self.root / "ops/row_softmax_buggy.cu"

    @property
    def bug_line(self) -> int:
        """The 0-based line with the ``expect:`` comment of the bug."""
        return next(number for number, line in enumerate(self.buggy.read_text().splitlines()) if "expect:" in line)

    @property
    def fixed(self) -> str:
        """The text of the correct counterpart."""
        return (self.root / "ops/row_softmax.cu").read_text()


def make_project(root: Path) -> EditorProject:
    """Copy a few kernels of the corpus, their references and their part of ``gpuemu.toml`` to a new folder."""
    copy_kernels(KERNELS, root, '[project]\nname = "editors"\n\n')
    return EditorProject(root)


def isolated_environment(folder: Path) -> dict[str, str]:
    """Return the environment of an unconfigured editor: an empty home in ``folder``, this Python first on PATH."""
    home = folder / "home"
    home.mkdir()
    ours = {key: value for key, value in os.environ.items() if not key.startswith(("XDG_", "GPUEMU_"))}
    cache = os.environ.get("GPUEMU_CACHE_DIR", str(folder / "cache"))
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**ours, "HOME": str(home), "PATH": path, "GPUEMU_CACHE_DIR": cache}


def without_editor(reason: str) -> NoReturn:
    """Skip a test whose editor is not installed; fail it where ``GPUEMU_REQUIRE_EDITORS`` is set, as in CI."""
    if os.environ.get(REQUIRED):
        pytest.fail(reason)
    pytest.skip(reason)
