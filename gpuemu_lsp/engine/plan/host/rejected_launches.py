"""Launches of the host code that no device accepts: with more threads in a block than the kernel may have."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import chain
from typing import Final

from gpuemu_lsp.engine.findings import Finding, ModulePlace, Place, Range
from gpuemu_lsp.engine.plan.context import KernelContext, lines_of
from gpuemu_lsp.engine.plan.host.chosen_launches import host_launches
from gpuemu_lsp.engine.plan.host.preference import is_instance, may_be_overload, template_of
from gpuemu_lsp.engine.rules import make

_MOST_THREADS: Final = 1024
"""Threads of a block on every device (CUDA programming guide, technical specifications)."""


def rejected_launches(context: KernelContext) -> Iterator[Finding]:
    """Yield an error for each launch in the kernel's file whose block, a constant, is too large for this instance.

    The limit is that of the compiled code: ``__launch_bounds__`` may be a macro or depend on the template's arguments.
    """
    if context.code is None:
        return
    bounds = context.code.max_threads
    limit = min(bounds or _MOST_THREADS, _MOST_THREADS)
    kernel, lines = context.declaration.name, set[int]()
    for read in chain.from_iterable(
        host_launches(context.source, kernel, context.spec.include_dirs, called=called) for called in (True, False)
    ):
        launch = read.launch
        constants = [extent.constant if extent is not None else None for extent in launch.block]
        extents = [extent for extent in constants if extent is not None]
        here = launch.path == context.source.path and launch.line not in lines and not read.generic
        threads = math.prod(extents)
        if not here or len(extents) < len(constants) or threads <= limit:
            continue
        if may_be_overload(context, launch) and is_instance(context, template_of(context, launch)):
            lines.add(launch.line)
            most = f"its __launch_bounds__ allow {limit}" if bounds == limit else f"a block has at most {limit}"
            message = f"This launch of '{kernel}' fails: its blocks have {threads} threads, and {most}."
            yield make("api/failed-launch", message, _place(context, launch.line), kernel=context.spec.name)


def _place(context: KernelContext, line: int) -> Place:
    module = context.source.module
    written = lines_of(context.source.text if module is None else module.text)[line]
    span = Range.of(line, len(written) - len(written.lstrip()), line, len(written.rstrip()))
    return Place(context.source.path, span) if module is None else ModulePlace(context.source.path, span)
