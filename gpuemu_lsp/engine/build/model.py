"""Records of how a file is compiled."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from gpuemu_lsp.engine.findings import Json


class SettingKind(StrEnum):
    """What a setting determines."""

    INCLUDE_DIR = "include directory"
    DEFINE = "macro"
    FORCED_INCLUDE = "forced include"
    STANDARD = "standard"
    OPTION = "option"
    ARCHITECTURE = "architecture"
    IGNORED = "ignored option"


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a setting is written: an absolute path, and a 0-based line or None. ``what`` is its part of the file."""

    path: str
    line: int | None = None
    what: str = ""

    def __str__(self) -> str:
        line = "" if self.line is None else f":{self.line + 1}"
        return f"{self.path}{line}" + (f" ({self.what})" if self.what else "")


@dataclass(frozen=True, slots=True)
class Setting:
    """One setting; ``value`` is an absolute directory, or the option as NVRTC takes it (``-DN=4``, ``-std=c++17``)."""

    kind: SettingKind
    value: str
    origin: Origin


@dataclass(frozen=True, slots=True)
class MissingInclude:
    """A header that was not found. ``package`` is the name to install from PyPI, None if it is not known."""

    target: str
    package: str | None = None

    @property
    def remedy(self) -> str:
        """The next step."""
        if self.package is not None:
            return f"pip install {self.package} into the project's Python"
        return "add its folder to `include_dirs` of `[build]` in gpuemu.toml"


@dataclass(frozen=True, slots=True)
class BuildContext:
    """How a file is compiled: settings in the order in which they apply, and headers that were not found."""

    path: str
    settings: tuple[Setting, ...] = ()
    missing: tuple[MissingInclude, ...] = ()

    def of(self, *kinds: SettingKind) -> tuple[Setting, ...]:
        """Return the settings of some kinds."""
        return tuple(setting for setting in self.settings if setting.kind in kinds)

    @property
    def include_dirs(self) -> tuple[str, ...]:
        """Absolute include directories, in the order of the search."""
        return tuple(dict.fromkeys(setting.value for setting in self.of(SettingKind.INCLUDE_DIR)))

    @property
    def options(self) -> tuple[str, ...]:
        """Options for NVRTC other than include directories and the architecture."""
        kinds = (SettingKind.DEFINE, SettingKind.FORCED_INCLUDE, SettingKind.STANDARD, SettingKind.OPTION)
        return tuple(dict.fromkeys(setting.value for setting in self.of(*kinds)))

    @property
    def arch(self) -> tuple[str, ...]:
        """The architectures to compile for; empty if the build files do not require one."""
        return tuple(setting.value for setting in self.of(SettingKind.ARCHITECTURE))

    def record(self) -> dict[str, Json]:
        """Return the context as JSON."""
        settings: list[Json] = [
            {
                "kind": setting.kind.value,
                "value": setting.value,
                "path": setting.origin.path,
                "line": setting.origin.line,
                "part": setting.origin.what,
            }
            for setting in self.settings
        ]
        missing: list[Json] = [
            {"header": item.target, "package": item.package, "remedy": item.remedy} for item in self.missing
        ]
        return {"path": self.path, "settings": settings, "missing": missing}


def include_dirs(folders: Iterable[Path | str], origin: Origin) -> tuple[Setting, ...]:
    """Return a setting for each directory that exists."""
    existing = (Path(folder) for folder in folders)
    return tuple(Setting(SettingKind.INCLUDE_DIR, folder.as_posix(), origin) for folder in existing if folder.is_dir())
