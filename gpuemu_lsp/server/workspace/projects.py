"""The configurations in force: the nearest gpuemu.toml of a file as last saved, or the last one that was TOML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.project import discover, load
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.model import Project


@dataclass(frozen=True, slots=True)
class _Loaded:
    """``project`` is None while the file has never been readable; ``stamp`` tells whether it has changed on disk.

    ``fallback`` is what holds when the next text is broken.
    """

    stamp: tuple[int, int] | None
    project: Project | None
    fallback: Project | None


class Projects:
    """Projects by the path of their gpuemu.toml. Methods named ``read`` look at the disk: not for the event loop."""

    def __init__(self) -> None:
        self._loaded: dict[str, _Loaded] = {}
        self._alone: dict[str, Project] = {}

    def of(self, path: str) -> Project | None:
        """Return the project of a file, as last read; None when its gpuemu.toml is broken and never was good."""
        config = discover(Path(path).parent)
        if config is None:
            return self._without(path)
        loaded = self._loaded.get(config.as_posix())
        return loaded.project if loaded is not None else self.read_config(config.as_posix())

    def read(self, path: str) -> Project | None:
        """Return the project a file belongs to, read again if it has changed on disk."""
        config = discover(Path(path).parent)
        return self._without(path) if config is None else self.read_config(config.as_posix())

    def read_config(self, config: str) -> Project | None:
        """Return the project of a configuration, read again if it has changed on disk."""
        stamp = _stamp(config)
        loaded = self._loaded.get(config)
        if loaded is None or loaded.stamp != stamp:
            fallback = loaded.fallback if loaded is not None and stamp is not None else None
            project = load(Path(config))
            if any(finding.rule == "config/syntax" for finding in project.findings):
                loaded = _Loaded(stamp, fallback, fallback)
            else:
                # Editors cut a file to nothing before they write it: what was read then is no text to fall back to.
                written = stamp == _stamp(config) and (stamp is None or stamp[1] > 0)
                loaded = _Loaded(stamp, project, project if written else fallback)
            self._loaded[config] = loaded
        return loaded.project

    def read_all(self, folders: Iterable[str]) -> None:
        """Read the configurations of some folders."""
        for folder in folders:
            self.read(f"{folder}/{CONFIG_NAME}")

    def known(self) -> tuple[Project, ...]:
        """Return every project that has been asked for."""
        return tuple(loaded.project for loaded in list(self._loaded.values()) if loaded.project is not None)

    def _without(self, path: str) -> Project:
        """Return the project of a file that no configuration is about: always the same object for a folder."""
        root = Path(path).parent.as_posix()
        return self._alone.setdefault(root, Project(root=root, config=None))


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
