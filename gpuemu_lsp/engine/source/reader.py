"""Read one .cu file: everything the other rooms need to know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuemu_lsp.engine.source.constants import file_constants
from gpuemu_lsp.engine.source.includers import launches_elsewhere
from gpuemu_lsp.engine.source.includes import includes
from gpuemu_lsp.engine.source.kernels import dynamic_shared, instances, kernels
from gpuemu_lsp.engine.source.launches import launches
from gpuemu_lsp.engine.source.model import SourceFile
from gpuemu_lsp.engine.source.view import device_views


def read(
    path: str,
    text: str,
    include_dirs: Sequence[str] = (),
    overlay: Mapping[str, str] | None = None,
    options: Sequence[str] = (),
) -> SourceFile:
    """Read a file; it may be half written, empty or no CUDA at all, and need not be what is on disk.

    Parameters
    ----------
    path
        Absolute path; headers are looked for beside it.
    text
        Its content.
    include_dirs
        Further folders with user headers.
    overlay
        Texts of headers that are newer than the disk's, by absolute path.
    options
        The compiler's; its ``-D`` and ``-U`` decide which ``#if`` branches count.
    """
    views = device_views(path, text, include_dirs, overlay, options)
    unit = views.units[0]
    found = kernels(unit, views.macros)
    constants = file_constants(views.units, views.macros)
    launched = launches(unit, constants, views.macros)
    if not launched:
        launched = launches_elsewhere(path, (kernel.name for kernel in found), include_dirs)
    return SourceFile(
        path=path,
        text=text,
        kernels=found,
        launches=launched,
        includes=includes(unit.text, path, include_dirs),
        constants=constants,
        device_view=views.view,
        has_errors=not unit.items.balanced,
        dynamic_shared=dynamic_shared(unit, found),
        instances=instances(unit),
        headers=views.headers,
    )
