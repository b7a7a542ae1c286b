"""What the scenarios of all editors share: a folder with kernels of the corpus, one of them buggy."""

from __future__ import annotations

import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

CORPUS = Path(__file__).resolve().parents[2] / "kernels"
KERNELS = ("row_softmax_buggy", "row_softmax", "gelu", "halo_buggy")
SERVER = (sys.executable, "-m", "gpuemu_lsp", "--stdio")


@dataclass(frozen=True)
class EditorProject:
    """A folder with a ``gpuemu.toml``, a softmax to mend and a few kernels beside it."""

    root: Path

    @property
    def buggy(self) -> Path:
        """The softmax that overflows on large values."""
        return self.root / "ops/row_softmax_buggy.cu"

    @property
    def bug_line(self) -> int:
        """The 0-based line on which the corpus says that the bug shows."""
        return next(number for number, line in enumerate(self.buggy.read_text().splitlines()) if "expect:" in line)

    @property
    def mended(self) -> str:
        """The text of the correct twin."""
        return (self.root / "ops/row_softmax.cu").read_text()


def make_project(root: Path) -> EditorProject:
    """Copy a few kernels of the corpus, their references and their part of ``gpuemu.toml`` to a new folder."""
    config = (CORPUS / "gpuemu.toml").read_text()
    blocks = {block.split('"', 2)[1]: block for block in config.split("[[kernels]]\n")[1:]}
    shutil.copytree(CORPUS / "reference", root / "reference", ignore=shutil.ignore_patterns("__pycache__"))
    for name in KERNELS:
        source = Path(blocks[name].split('source = "', 1)[1].split('"', 1)[0])
        (root / source).parent.mkdir(exist_ok=True)
        shutil.copy(CORPUS / source, root / source)
    text = "".join("[[kernels]]\n" + blocks[name] for name in KERNELS)
    (root / "gpuemu.toml").write_text('[project]\nname = "editors"\n\n' + text)
    return EditorProject(root)
