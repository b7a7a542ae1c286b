"""One .cu file as a :class:`SourceFile`: kernels, launches, includes, constants and device view."""

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
    """Read a file, which may be half written, empty or not CUDA at all.

    Parameters
    ----------
    path
        Absolute path; quoted includes are searched for in its directory first.
    text
        Its content, which may be newer than the file on disk.
    include_dirs
        Further directories with user headers.
    overlay
        Texts of headers by absolute path, used in place of the files on disk (unsaved editor buffers).
    options
        Compile options; ``-D`` and ``-U`` decide which ``#if`` branches are active.
    """
    views = device_views(path, text, include_dirs, overlay, options)
    file = views.files[0]
    found = kernels(file, views.macros)
    constants = file_constants(views.files, views.macros)
    launched = launches(file, constants, views.macros)
    if not launched:
        # A header of kernel templates: its instances and launch configuration are in the files that include it.
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
