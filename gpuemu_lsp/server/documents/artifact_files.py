"""The files with the code of kernels that the server writes for clients without virtual documents."""

from __future__ import annotations

from pathlib import Path

from gpuemu_lsp.engine.cache_folder import cache_root


def artifact_folder() -> Path:
    """Return the folder of these files, in the user's cache."""
    return cache_root() / "artifacts"


def is_artifact_file(path: str) -> bool:
    """Return whether a file is one of them: what its kernels do is said of the source."""
    return Path(path).is_relative_to(artifact_folder())
