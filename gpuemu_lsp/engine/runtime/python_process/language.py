"""A language in Python that compiles and launches its kernels itself, in the process of the program."""

from __future__ import annotations

import importlib.util
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path


def _none(_: Path) -> dict[str, str]:
    return {}


@dataclass(frozen=True, slots=True)
class LaunchingLanguage:
    """A language whose programs use our runtime.

    Attributes
    ----------
    key
        Its value of the key ``language`` of a kernel.
    name
        Its name in messages.
    imported
        The package that programs import.
    distribution, package
        What is installed: the distribution, and a package of it that has the name of no other distribution's.
    tried
        Begin of the versions that were tried.
    extra
        Our extra that installs it.
    architecture
        The device's, unless the user says another.
    symbol
        What remains of a kernel's symbol behind the name of its function, as an expression: the symbol of C++ alone.
    environment
        The variables that its processes need, by the file of our runtime library.
    """

    key: str
    name: str
    imported: str
    distribution: str
    package: str
    tried: str
    extra: str
    architecture: str
    symbol: str = ""
    environment: Callable[[Path], Mapping[str, str]] = _none

    def is_used(self, text: str) -> bool:
        """Return whether a source in Python imports it."""
        return re.search(rf"^\s*(?:import|from)\s+{self.imported}\b", text, re.MULTILINE) is not None

    def is_symbol_of(self, symbol: str, function: str) -> bool:
        """Return whether a kernel was compiled from a function of a name, by its demangled symbol."""
        return re.fullmatch(rf"(?:\w+__)?{re.escape(function)}{self.symbol}", symbol) is not None

    def is_installed(self) -> bool:
        """Return whether this environment has it. Nothing is imported."""
        return importlib.util.find_spec(self.package) is not None

    def untried_version(self) -> str | None:
        """Return the installed version if it is not one that was tried, else None."""
        try:
            version = metadata.version(self.distribution)
        except metadata.PackageNotFoundError:
            return None
        return None if version.startswith(self.tried) else version
