"""Launches of a header's kernels in the files that include it.

A kernel is often a template in a ``.cuh`` that is launched in the one ``.cu`` that includes it. Read alone, such a
header shows neither the instance that is used nor its launch configuration.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from gpuemu_lsp.engine.source.device_view.view import device_views
from gpuemu_lsp.engine.source.headers.includes import include_closure, load
from gpuemu_lsp.engine.source.headers.nearby_sources import launched_names, sources_near
from gpuemu_lsp.engine.source.host.constants import file_constants
from gpuemu_lsp.engine.source.host.launches import launches
from gpuemu_lsp.engine.source.model import LaunchSite
from gpuemu_lsp.engine.source.preprocessor.lexer import decode


def launches_in_includers(path: str, names: Iterable[str], include_dirs: Sequence[str] = ()) -> tuple[LaunchSite, ...]:
    """Return the launches of a header's kernels in nearby files that include it, directly or not.

    Parameters
    ----------
    path
        Absolute path of the header, or of a source that others include.
    names
        Names of its kernels.
    include_dirs
        Directories to search for headers.
    """
    wanted = frozenset(names)
    if not wanted:
        return ()
    encoded = {name.encode() for name in wanted}
    found: list[LaunchSite] = []
    for candidate in sources_near(path):
        # The cheap tests come first: parsing a candidate takes milliseconds, its cached launched names none.
        if candidate == path or encoded.isdisjoint(launched_names(candidate)):
            continue
        text = load(candidate)
        if text is None or path not in include_closure(candidate, include_dirs):
            continue
        views = device_views(candidate, decode(text.raw), include_dirs)
        constants = file_constants(views.files, views.macros)
        found += [
            replace(launch, path=candidate)
            for launch in launches(views.files[0], constants, views.macros)
            if launch.kernel in wanted
        ]
    return tuple(found)
