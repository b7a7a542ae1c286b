"""Where recordings lie, and which kernels of a file have recorded launches."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from gpuemu_lsp.engine.recordings.model import Recording, RecordingError
from gpuemu_lsp.engine.recordings.reader import read_recording

FOLDER = Path(".gpuemu") / "recordings"
SUFFIX = ".gpurec"
_MOST_FILES = 64
_MOST_PARENTS = 8


def recording_path(folder: Path, program: str) -> Path:
    """Return the path of the recording of a program in a project's folder."""
    name = "".join(one if one.isalnum() or one in "-_." else "_" for one in program) or "program"
    return folder / FOLDER / f"{name}{SUFFIX}"


def recordings_root(root: str | None, source: str) -> Path | None:
    """Return the folder whose recordings apply to a source: that of its project, else the nearest one that has any."""
    if root is not None and (Path(root) / FOLDER).is_dir():
        return Path(root)
    parents = list(Path(source).parents)[:_MOST_PARENTS]
    return next((folder for folder in parents if (folder / FOLDER).is_dir()), None)


def store_folder(root: str, config: str | None) -> str | None:
    """Return the folder in which failing cases of a project are stored.

    That of its gpuemu.toml; one without that has no store, unless it has recordings, whose launches may fail.
    """
    return root if config is not None or (Path(root) / FOLDER).is_dir() else None


def sources_of(root: Path, kernels: Collection[str]) -> list[str]:
    """Return the files of recorded kernels with some names, without namespaces."""
    found = (kernel for recording in read_recordings(root)[0] for kernel in recording.kernels)
    named = (one.source for one in found if one.name.rpartition("::")[2] in kernels)
    return list(dict.fromkeys(source for source in named if source is not None and Path(source).is_file()))


def recording_files(root: Path) -> list[Path]:
    """Return the recordings of a project, latest first."""
    found = []
    for path in (root / FOLDER).glob(f"*{SUFFIX}"):
        try:
            found.append((path.stat().st_mtime_ns, path))
        except OSError:
            continue
    return [path for _, path in sorted(found, reverse=True)][:_MOST_FILES]


def read_recordings(root: Path) -> tuple[list[Recording], list[RecordingError]]:
    """Return the recordings of a project, latest first, and what is wrong with those that cannot be read."""
    recordings, errors = [], []
    for path in recording_files(root):
        try:
            recordings.append(read_recording(path))
        except RecordingError as error:
            errors.append(error)
    return recordings, errors
