"""The recorded launches of a source's kernels, and the template instances that they used."""

from __future__ import annotations

import os
from dataclasses import dataclass

from gpuemu_lsp.engine.plan.mangled import template_arguments_of
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.recordings.model import RecordedKernel, RecordedLaunch, Recording
from gpuemu_lsp.engine.recordings.project_files import read_recordings, recordings_root
from gpuemu_lsp.engine.source.model import KernelDecl

MAX_LAUNCHES = 6
"""Launches of one instance that are checked, of the latest recording first."""


@dataclass(frozen=True, slots=True)
class KernelLaunches:
    """The launches of one instance of a kernel in one recording."""

    recording: Recording
    kernel: RecordedKernel
    launches: tuple[RecordedLaunch, ...]


def launches_of(root: str | None, spec: KernelSpec, declaration: KernelDecl) -> list[KernelLaunches]:
    """Return the recorded launches of a kernel, each instance once: those of the latest recording that has it."""
    folder = recordings_root(root, spec.source)
    if folder is None:
        return []
    path = os.path.realpath(spec.source)
    found: dict[str, KernelLaunches] = {}
    for recording in read_recordings(folder)[0]:
        for number, kernel in enumerate(recording.kernels):
            names = {declaration.qualified_name, *([declaration.name] if declaration.extern_c else [])}
            if kernel.source is None or os.path.realpath(kernel.source) != path or kernel.name not in names:
                continue
            launches = tuple(one for one in recording.launches if one.kernel == number)
            if launches:
                found.setdefault(kernel.symbol, KernelLaunches(recording, kernel, launches[:MAX_LAUNCHES]))
    return list(found.values())


def instance_of(declaration: KernelDecl, kernel: RecordedKernel) -> str | None:
    """Return the name expression of a recorded instance, None if its template arguments cannot be read."""
    if not declaration.template:
        return declaration.qualified_name
    arguments = template_arguments_of(kernel.symbol)
    if not arguments:
        return None
    return f"{declaration.qualified_name}<{', '.join(arguments)}>"
