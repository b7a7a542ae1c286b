"""Paths in gpuemu.toml: conversion to absolute paths, and the reason if one cannot be used."""

from __future__ import annotations

import difflib
import os
import stat
from itertools import islice
from pathlib import Path

MISSING = "does not exist"
_MAX_ENTRIES = 2000
"""Most entries of a folder that are compared with a misspelt name."""


def absolute(folder: Path, name: str) -> str:
    """Return ``name`` relative to ``folder`` as an absolute path without ``..``, with forward slashes."""
    return Path(os.path.normpath(folder / name)).as_posix()


def problem(path: str, want_folder: bool) -> str | None:
    """Return the reason why a path cannot be used, to follow the path in a sentence, or None if it can."""
    try:
        mode = Path(path).stat().st_mode
    except FileNotFoundError:
        return MISSING
    except OSError as error:
        return f"cannot be read ({error.strerror or error})"
    except ValueError:  # a NUL character in the name
        return "is not a possible file name"
    if want_folder:
        return None if stat.S_ISDIR(mode) else "is not a folder"
    if stat.S_ISDIR(mode):
        return "is a folder, not a file"
    if not stat.S_ISREG(mode):
        return "is not a regular file"
    return None if os.access(path, os.R_OK) else "cannot be read (permission denied)"


def similar(folder: Path, name: str) -> str | None:
    """Return the existing path most similar to a missing one, relative as in gpuemu.toml, or None."""
    wanted = Path(name)
    try:
        with os.scandir(folder / wanted.parent) as entries:
            found = [entry.name for entry in islice(entries, _MAX_ENTRIES)]
    except (OSError, ValueError):
        return None
    close = difflib.get_close_matches(wanted.name, sorted(found), n=1, cutoff=0.7)
    return (wanted.parent / close[0]).as_posix() if close else None


def module_file(folder: str, target: str) -> str | None:
    """Return the file of ``module:function`` below a folder or its ``src``, None if the module is not there."""
    module = target.partition(":")[0].replace(".", "/")
    for base in (Path(folder), Path(folder) / "src"):
        for candidate in (base / f"{module}.py", base / module / "__init__.py"):
            if candidate.is_file():
                return candidate.as_posix()
    return None
