"""Errors of Triton's compiler as findings on lines of the ``.py``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

import triton
from triton.compiler.errors import CompilationError
from triton.runtime.jit import JITCallable, JITFunction

from gpuemu_lsp.engine.cause import ErrorTrait
from gpuemu_lsp.engine.findings import Finding, Place, Related
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.source_map import statement_range

TRITON_FOLDER = Path(triton.__file__).parent
_DEEPEST = 64
_EXCEPTION = re.compile(r"[A-Z]\w*(?:Error|Exception)\((?P<quote>['\"])(?P<text>.*)(?P=quote)\)", re.S)
"""The representation of an exception, in which Triton wraps those of its own functions."""
_INDEPENDENT = re.compile(
    r"module '[\w.]+' has no attribute|unexpected keyword argument|SyntaxError|unsupported AST node"
)
_UNDEFINED = re.compile(r"\b(\w+) is not defined")


@dataclass(frozen=True, slots=True)
class _ErrorPlace:
    path: str
    line: int
    column: int
    message: str


def compile_error(
    error: BaseException, function: Any, texts: Callable[[str], str | None], fallback: Place, kernel: str
) -> Finding:
    """Return the finding of an exception that Triton's compiler raised.

    It is on the innermost line of the user's own code; the calls that lead there are related places. ``function`` is
    the kernel below its decorators. ``texts`` returns the text of a file, None for one that is not the user's.
    """
    chain = list(_chain(error, function))
    own = [(one, text) for one in chain if (text := texts(one.path)) is not None]
    innermost = chain[-1].message if chain else ""
    message = _sentence(innermost or (str(error) if not chain else "") or type(error).__name__)
    found = _with_traits(make("compile/error", message, fallback, kernel=kernel), message)
    if not own:
        return found
    places = [Place(one.path, statement_range(text, one.line - 1, one.column, python=True)) for one, text in own]
    related = tuple(Related(place, "called here") for place in reversed(places[:-1]) if place != places[-1])
    return replace(found, place=places[-1], related=related)


def _with_traits(finding: Finding, text: str) -> Finding:
    """Return the finding of an error with what its text is about: the only place that knows Triton's wording."""
    if _INDEPENDENT.search(text):
        return replace(finding, traits=frozenset({ErrorTrait.TYPE_INDEPENDENT}))
    if (undefined := _UNDEFINED.search(text)) is not None:
        return replace(finding, traits=frozenset({ErrorTrait.UNDECLARED}), data={"name": undefined[1]})
    return finding


def _chain(error: BaseException | None, kernel: JITFunction[Any]) -> Iterator[_ErrorPlace]:
    """Yield the places of an error from the kernel to the function that fails."""
    for _ in range(_DEEPEST):
        if error is None:
            return
        if isinstance(error, CompilationError) and hasattr(error.node, "lineno"):
            function = _function_of(error, kernel)
            if function is not None:
                line = function.def_file_line_number + error.node.lineno - 1
                column = function.def_file_col_number - 1 + getattr(error.node, "col_offset", 0)
                yield _ErrorPlace(function.file_name, line, column, error.error_message or "")
        error = error.__cause__


def _function_of(error: CompilationError, kernel: JITFunction[Any]) -> Any:
    """Return the function that an error was raised for, which has its text: Triton drops the traceback."""
    pending, seen = [kernel], set[int]()
    while pending:
        function = pending.pop(0)
        if id(function) in seen:
            continue
        seen.add(id(function))
        if function.src == error.src:
            return function
        names = getattr(function.fn, "__globals__", {})
        known = [*names.values()]
        known += [value for module in known if isinstance(module, ModuleType) for value in vars(module).values()]
        pending += [value for value in known if isinstance(value, JITCallable)]
    return None


def _sentence(message: str) -> str:
    """Return the message of the compiler without the excerpt of the source that precedes it."""
    named = _EXCEPTION.fullmatch(message.strip())
    if named is not None:
        message = named["text"]
    lines = [line.strip() for line in message.splitlines() if line.strip()]
    text = lines[0] if lines else "Triton cannot compile this kernel."
    return text if text.endswith((".", "!")) else f"{text}."
