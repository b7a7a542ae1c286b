"""Read one .cu file: everything the other rooms need to know of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuemu_lsp.engine.source.device_view.view import device_views
from gpuemu_lsp.engine.source.headers.includes import includes
from gpuemu_lsp.engine.source.host.constants import file_constants
from gpuemu_lsp.engine.source.host.includer_launches import launches_in_includers
from gpuemu_lsp.engine.source.host.launches import launches
from gpuemu_lsp.engine.source.model import SourceFile
from gpuemu_lsp.engine.source.syntax.kernels import dynamic_shared, instances, kernels


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
    file = views.files[0]
    found = kernels(file, views.macros)
    constants = file_constants(views.files, views.macros)
    launched = launches(file, constants, views.macros)
    if not launched:
        launched = launches_in_includers(path, (kernel.name for kernel in found), include_dirs)
    return SourceFile(
        path=path,
        text=text,
        kernels=found,
        launches=launched,
        includes=includes(file.text, path, include_dirs),
        constants=constants,
        device_view=views.view,
        has_errors=not file.items.balanced,
        dynamic_shared=dynamic_shared(file, found),
        instances=instances(file),
        headers=views.headers,
    )
