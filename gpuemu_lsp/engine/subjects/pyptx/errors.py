"""Exceptions of the user's code while a kernel is built or traced, as findings on its lines."""

from __future__ import annotations

import traceback
from collections.abc import Callable
from dataclasses import replace

from gpuemu_lsp.engine.findings import Finding, Place, Related
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.pyptx.tracing import is_user_file
from gpuemu_lsp.engine.subjects.source_map import statement_range


def trace_error(
    error: BaseException, own: str, texts: Callable[[str], str | None], fallback: Place, kernel: str
) -> Finding:
    """Return the finding of an exception: on the innermost line of the user's, which the others lead to.

    ``own`` is the path of the module with the kernel, ``texts`` returns the text of a file.
    """
    message = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    places = []
    for frame in traceback.extract_tb(error.__traceback__):
        text = texts(frame.filename) if is_user_file(frame.filename, own) else None
        if text is not None and frame.lineno is not None:
            column = frame.colno or 0
            places.append(Place(frame.filename, statement_range(text, frame.lineno - 1, column, python=True)))
    if not places:
        return make("compile/error", message, fallback, kernel=kernel)
    related = tuple(Related(place, "called here") for place in reversed(places[:-1]) if place != places[-1])
    return replace(make("compile/error", message, places[-1], kernel=kernel), related=related)
