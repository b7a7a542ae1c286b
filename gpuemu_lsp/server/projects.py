"""The configurations in force: the nearest gpuemu.toml of a file as last saved, or the last one that was TOML."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.project import discover, load
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.project.model import Project


@dataclass(frozen=True, slots=True)
class _Loaded:
    """``good`` is None while the file has never been readable; ``stamp`` tells whether it has changed on disk."""

    stamp: tuple[int, int] | None
    good: Project | None


class Projects:
    """Projects by the path of their gpuemu.toml."""

    def __init__(self) -> None:
        self._loaded: dict[str, _Loaded] = {}

    def of(self, path: str) -> Project | None:
        """Return the project a file belongs to; None when its configuration is broken and never was good."""
        config = discover(Path(path).parent)
        if config is None:
            return Project(root=Path(path).parent.as_posix(), config=None)
        return self.at(config.as_posix())

    def at(self, config: str) -> Project | None:
        """Return the project of a configuration, read again if it has changed on disk."""
        stamp = _stamp(config)
        loaded = self._loaded.get(config)
        if loaded is None or loaded.stamp != stamp:
            project = load(Path(config))
            old = loaded.good if loaded is not None and stamp is not None else None
            loaded = _Loaded(stamp, old if _unreadable(project.findings) else project)
            self._loaded[config] = loaded
        return loaded.good

    def load(self, folders: Iterable[str]) -> None:
        """Read the configurations of some folders."""
        for folder in folders:
            self.of(f"{folder}/{CONFIG_NAME}")

    def known(self) -> tuple[Project, ...]:
        """Return every project that has been asked for."""
        return tuple(loaded.good for loaded in self._loaded.values() if loaded.good is not None)


def findings_of(config: str, text: str | None) -> tuple[Finding, ...]:
    """Return what is wrong with a configuration as it is being typed (or, with None, on disk)."""
    return load(Path(config), text).findings


def _unreadable(findings: tuple[Finding, ...]) -> bool:
    return any(finding.rule == "config/syntax" for finding in findings)


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = Path(path).stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
