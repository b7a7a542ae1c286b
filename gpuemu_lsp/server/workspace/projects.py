"""Projects of the workspace: for each file the nearest ``gpuemu.toml`` on disk, or its last version that was valid."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu_lsp.engine.project import discover, load
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.model import Project


@dataclass(frozen=True, slots=True)
class _LoadedProject:
    """``project`` is None while the file has never been valid TOML; ``stamp`` changes with the file on disk.

    ``fallback`` replaces the next version if that is not valid TOML.
    """

    stamp: tuple[int, int] | None
    project: Project | None
    fallback: Project | None


class Projects:
    """Projects by the path of their gpuemu.toml.

    Methods named ``read`` access the disk and parse: they belong in the parser thread, not on the event loop.
    """

    def __init__(self) -> None:
        self._loaded: dict[str, _LoadedProject] = {}
        self._unconfigured: dict[str, Project] = {}

    def of(self, path: str) -> Project | None:
        """Return the project of a file, as last read; None where its gpuemu.toml has never been valid TOML."""
        config = discover(Path(path).parent)
        if config is None:
            return self._without_config(path)
        loaded = self._loaded.get(config.as_posix())
        return loaded.project if loaded is not None else self.read_config(config.as_posix())

    def read(self, path: str) -> Project | None:
        """Return the project of a file, read again if its configuration has changed on disk."""
        config = discover(Path(path).parent)
        return self._without_config(path) if config is None else self.read_config(config.as_posix())

    def read_config(self, config: str) -> Project | None:
        """Return the project of a configuration, read again if it has changed on disk."""
        stamp = _stamp(config)
        loaded = self._loaded.get(config)
        if loaded is None or loaded.stamp != stamp:
            fallback = loaded.fallback if loaded is not None and stamp is not None else None
            project = load(Path(config))
            if any(finding.rule == "config/syntax" for finding in project.findings):
                loaded = _LoadedProject(stamp, fallback, fallback)
            else:
                # Editors truncate a file before they write it: an empty text, or one that changed while it was read,
                # does not become the fallback.
                complete = stamp == _stamp(config) and (stamp is None or stamp[1] > 0)
                loaded = _LoadedProject(stamp, project, project if complete else fallback)
            self._loaded[config] = loaded
        return loaded.project

    def expire(self, config: str) -> None:
        """Read a configuration again although it is the same: whether it is valid depends on the files it names."""
        loaded = self._loaded.get(config)
        if loaded is not None:
            self._loaded[config] = replace(loaded, stamp=(0, 0))

    def read_all(self, folders: Iterable[str]) -> None:
        """Read the configurations of some folders."""
        for folder in folders:
            self.read(f"{folder}/{CONFIG_NAME}")

    def known(self) -> tuple[Project, ...]:
        """Return every project that has been read."""
        return tuple(loaded.project for loaded in list(self._loaded.values()) if loaded.project is not None)

    def unconfigured(self) -> tuple[Project, ...]:
        """Return the folders without a gpuemu.toml whose files were asked for."""
        return tuple(self._unconfigured.values())

    def _without_config(self, path: str) -> Project:
        """Return the project of a file without configuration: always the same object for a folder."""
        root = Path(path).parent.as_posix()
        return self._unconfigured.setdefault(root, Project(root=root, config=None))


def _stamp(path: str) -> tuple[int, int] | None:
    """Return modification time and size of a file, None where there is none."""
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
