"""Versions of Python and of packages in an environment, read from its files: nothing is executed."""

from __future__ import annotations

import contextlib
from importlib import metadata
from pathlib import Path


def installed_package(module: str, environment: Path | None) -> tuple[str, str] | None:
    """Return the name and version of the package that has a module, None if it is not an installed one.

    ``environment`` is the folder of a virtual environment, None for the one of this process.
    """
    if environment is None:
        for name in (*metadata.packages_distributions().get(module, ()), module):
            with contextlib.suppress(metadata.PackageNotFoundError, ValueError):
                return name, metadata.version(name)
        return None
    packages = (*environment.glob("lib/python*/site-packages"), *environment.glob("Lib/site-packages"))
    for found in metadata.distributions(path=[str(one) for one in packages]):
        if module and module in _modules_of(found):
            return found.metadata["Name"], found.version
    return None


def python_version(environment: Path) -> str:
    """Return the version of Python of a virtual environment; its path if that is not known."""
    with contextlib.suppress(OSError, UnicodeDecodeError):
        for line in (environment / "pyvenv.cfg").read_text(encoding="utf-8").splitlines():
            key, _, value = line.partition("=")
            if key.strip() in ("version", "version_info"):
                return value.strip()
    return environment.as_posix()


def _modules_of(distribution: metadata.Distribution) -> set[str]:
    """Return the top-level modules of a package."""
    listed = (distribution.read_text("top_level.txt") or "").split()
    files = [one.parts[0] for one in distribution.files or () if len(one.parts) > 1 or one.suffix == ".py"]
    return {*listed, *(name.removesuffix(".py") for name in files)}
