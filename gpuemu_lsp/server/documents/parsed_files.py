"""What a file's text says: its kernels, their entries, launches and headers. Read in a thread, never on the event loop.

A short file is read in a millisecond, a long one in a tenth of a second; the launches of a header's kernels may stand
in any file near it, and a gpuemu.toml may have hundreds of entries. Handlers only look at what has been read.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from gpuemu_lsp.engine.jobs.targets import SUFFIXES, read_kernels
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.plan.resolve import resolve
from gpuemu_lsp.engine.project import load
from gpuemu_lsp.engine.project.model import KernelSpec, Project
from gpuemu_lsp.engine.source import read
from gpuemu_lsp.engine.source.headers.includes import closure
from gpuemu_lsp.engine.source.model import KernelDecl
from gpuemu_lsp.engine.source.preprocessor.lexer import SourceText
from gpuemu_lsp.server.workspace.projects import Projects

_MOST = 512
_KERNEL = re.compile(r"\b__global__\b")
_P = ParamSpec("_P")
_T = TypeVar("_T")


@dataclass(frozen=True, slots=True)
class Entry:
    """A kernel to check: of gpuemu.toml (``registered``) or found in the text, with what the text says of its launches.

    ``decl`` is None where the text does not have the kernel that gpuemu.toml names.
    """

    spec: KernelSpec
    registered: bool
    decl: KernelDecl | None
    plans: tuple[Plan, ...]


@dataclass(frozen=True, slots=True)
class Reading:
    """A text and what it says. ``project`` is None where gpuemu.toml is broken and never was good.

    ``headers`` are the user headers it leads to, ``missing`` the names of those that are not there.
    """

    project: Project | None
    path: str
    text: str
    kernels: tuple[KernelDecl, ...] = ()
    entries: tuple[Entry, ...] = ()
    headers: tuple[str, ...] = ()
    missing: frozenset[str] = frozenset()

    def decl_of(self, spec: KernelSpec) -> KernelDecl | None:
        """Return the kernel function that an entry of gpuemu.toml means."""
        return _decl_of(self.kernels, spec)

    def includes(self, header: str) -> bool:
        """Say whether it leads to a header, or would if that were there."""
        return header in self.headers or Path(header).name in self.missing


def read_file(project: Project | None, path: str, text: str) -> Reading:
    """Read a text; one that is no CUDA and of no entry has no kernels."""
    if Path(path).suffix not in SUFFIXES and not (project is not None and is_source(project, path)):
        return Reading(project, path, text)
    if project is None:
        return Reading(None, path, text, read(path, text).kernels)
    source, found = read_kernels(project, path, text)
    words = SourceText(text)
    if not found and not source.kernels and _KERNEL.search(words.code):
        # The head of a kernel is half written, or all of them are left out: the compiler says which.
        found = [(KernelSpec(Path(path).stem, path, None), False)]
    headers = {
        header: None
        for folders in {spec.include_dirs for spec, _ in found} or {()}
        for header in closure(words, path, folders, {})
    }
    return Reading(
        project,
        path,
        text,
        source.kernels,
        tuple(
            Entry(spec, registered, _decl_of(source.kernels, spec), resolve(spec, source).plans)
            for spec, registered in found
        ),
        tuple(headers),
        frozenset(Path(include.target).name for include in source.includes if include.resolved is None),
    )


def is_source(project: Project, path: str) -> bool:
    """Say whether gpuemu.toml names the file as the source of a kernel."""
    return any(spec.source == path for spec in project.kernels)


def means(spec: KernelSpec, decl: KernelDecl, alone: bool) -> bool:
    """Say whether an entry is about a kernel; without ``entry`` it is the file's only one, or the one of its name."""
    if spec.entry is None and alone:
        return True
    wanted = (spec.entry or spec.name).split("<")[0].strip()
    return wanted in (decl.name, decl.qualified_name)


def disk_text(path: str) -> str | None:
    """Return a file's text as it is on disk; None where there is none."""
    try:
        return Path(path).read_bytes().decode("utf-8")
    except (OSError, UnicodeDecodeError):
        return None


class Readings:
    """The last reading of every file, and the one thread that reads."""

    def __init__(self, projects: Projects) -> None:
        self._projects = projects
        self._last: dict[str, Reading] = {}
        self._configs: dict[str, tuple[str, Project]] = {}
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="gpuemu-read")

    def __len__(self) -> int:
        return len(self._last)

    def last(self, path: str) -> Reading | None:
        """Return what was last read of a file, whatever its text is now."""
        return self._last.get(path)

    async def of(self, path: str, text: str | None, fresh: bool = False) -> Reading | None:
        """Read a text, or the file where that is None; ``fresh``: also where the same text has been read before."""
        known = self._last.get(path)
        if known is not None and not fresh and known.text == text and known.project is self._projects.of(path):
            return known
        reading = await self.away(self._read, path, text)
        if reading is None:
            self._last.pop(path, None)
            return None
        if len(self._last) >= _MOST:
            self._last.pop(next(iter(self._last)))
        self._last[path] = reading
        return reading

    async def config(self, path: str, text: str) -> Project:
        """Return what a gpuemu.toml says as it is being typed; nothing is put in force."""
        known = self._configs.get(path)
        if known is None or known[0] != text:
            known = self._configs[path] = text, await self.away(load, Path(path), text)
        return known[1]

    async def away(self, function: Callable[_P, _T], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call a function in the thread, after everything that was asked for before."""
        assert not kwargs
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)

    def close(self) -> None:
        """Read nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)

    def _read(self, path: str, text: str | None) -> Reading | None:
        if text is None:
            text = disk_text(path)
        return None if text is None else read_file(self._projects.read(path), path, text)


def _decl_of(kernels: Sequence[KernelDecl], spec: KernelSpec) -> KernelDecl | None:
    return next((decl for decl in kernels if means(spec, decl, alone=len(kernels) == 1)), None)
