"""Where the launches of kernels are written, for an editor: in a file, or in the files that include a header."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Range
from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.cpp.translation_units import unit_of
from gpuemu_lsp.engine.hostcode.launch_calls import LAUNCH_FUNCTIONS
from gpuemu_lsp.engine.hostcode.walk import walk
from gpuemu_lsp.engine.source import DeviceViews, device_views
from gpuemu_lsp.engine.source.headers.includes import include_closure, load
from gpuemu_lsp.engine.source.headers.nearby_sources import launched_names, sources_near
from gpuemu_lsp.engine.source.preprocessor.lexer import decode


@dataclass(frozen=True, slots=True)
class LaunchSite:
    """A launch of a kernel in host code; columns are UTF-8 bytes. ``path`` is that of another file that has it."""

    kernel: str
    range: Range
    path: str | None = None


def launch_sites(views: DeviceViews) -> tuple[LaunchSite, ...]:
    """Return the launches in a file, in order. That of a macro is on the line of the macro's use."""
    program, path = unit_of(views), views.files[0].path
    functions = (each for each in program.all_functions() if each.path == path and each.launches)
    found = {site for each in functions for site in _sites(each.body.statements, each.line)}
    return tuple(sorted(found, key=lambda site: site.range))


def _sites(body: ir.Node | None, line: int) -> Iterator[LaunchSite]:
    for node in walk(body) if body is not None else ():
        kernel: ir.Expression | None = None
        if isinstance(node, ir.Launch):
            kernel = node.kernel
        elif isinstance(node, ir.CallExpression) and isinstance(node.callee, ir.NameUse):
            kernel = node.arguments[0] if node.callee.base in LAUNCH_FUNCTIONS and node.arguments else None
        while isinstance(kernel, ir.Cast | ir.AddressOf):
            kernel = kernel.value if isinstance(kernel, ir.Cast) else kernel.operand
        if isinstance(kernel, ir.NameUse) and isinstance(node, ir.Launch | ir.CallExpression):
            first, column, last, end = node.span
            yield LaunchSite(kernel.base, Range.of(line + first, column, line + last, end))


def sites_in_includers(path: str, names: Iterable[str], include_dirs: Sequence[str] = ()) -> tuple[LaunchSite, ...]:
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
    encoded = {name.encode() for name in wanted}
    sites: list[LaunchSite] = []
    for candidate in sources_near(path) if wanted else ():
        # The cheap tests come first: parsing a candidate takes milliseconds, its cached launched names none.
        if candidate == path or encoded.isdisjoint(launched_names(candidate)):
            continue
        text = load(candidate)
        if text is not None and path in include_closure(candidate, include_dirs):
            there = launch_sites(device_views(candidate, decode(text.raw), include_dirs))
            sites += [LaunchSite(each.kernel, each.range, candidate) for each in there if each.kernel in wanted]
    return tuple(sites)
