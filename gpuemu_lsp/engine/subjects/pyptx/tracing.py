"""The PTX of one trace of a kernel, with a ``.loc`` for each instruction: the Python that emitted it.

pyptx traces a kernel by calling its function, whose calls record statements in a context. The context here also records
the stack of each: the innermost line that is neither of pyptx nor of Python's library, and the lines that called it,
which PTX has as call sites of inlined functions (PTX ISA section 11.5.2).
"""

from __future__ import annotations

import sys
import sysconfig
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import FrameType
from typing import Any

import pyptx
import pyptx._arch
import pyptx._trace
from pyptx.emitter import emit
from pyptx.ir.nodes import Block, Function, Instruction, IntrinsicScope, RawLine
from pyptx.kernel import Kernel

PYPTX_FOLDER = f"{Path(pyptx.__file__).parent}/"
_EXAMPLES = f"{PYPTX_FOLDER}examples/"
_LIBRARY = (f"{sysconfig.get_path('stdlib')}/", "<frozen ")
_MOST_CALLS = 12
_TRACED = "_trace"
"""The method of pyptx that calls the kernel's function: the lines below it on the stack are not of the kernel."""


@dataclass(frozen=True, slots=True)
class _Call:
    """A line that is being executed; ``column`` is 1-based, in bytes."""

    path: str
    line: int
    column: int
    function: str


@dataclass(frozen=True, slots=True)
class Trace:
    """A traced kernel.

    ``ptx`` is what pyptx emits, ``located`` the same with source lines. ``maps`` are the tensors with a tensor map, in
    the order of the parameters, ``shared_bytes`` is the dynamic shared memory of a launch.
    """

    ptx: str
    located: str
    entry: str
    maps: tuple[str, ...]
    shared_bytes: int


def use_architecture(arch: str) -> None:
    """Let pyptx find a device of an architecture, for kernels with ``arch="auto"``; for the rest of the process."""
    number = int("".join(sign for sign in arch if sign.isdigit()) or 80)
    pyptx._arch._query_compute_capability = lambda: divmod(number, 10)
    pyptx._arch.detect_arch.cache_clear()


def is_user_file(path: str, own: str) -> bool:
    """Return whether a file is not part of pyptx or of Python; ``own`` is the module with the kernel."""
    if path == own or path.startswith(_EXAMPLES):
        return True
    return not path.startswith((PYPTX_FOLDER, *_LIBRARY))


def trace(kernel: Kernel, sizes: Mapping[str, int], values: Mapping[str, Any], own: str) -> Trace:
    """Trace a kernel for sizes of its symbolic dimensions and values of its keyword-only parameters.

    ``own`` is the path of its module. What its function raises is not caught.
    """
    # Its cache has the statements of earlier traces, without the lines that emitted them.
    kernel._cache.clear()
    with _recorded(own) as contexts:
        module = kernel._trace(_shape_env=dict(sizes), **values)
    maps = kernel._tma_names_by_module_id.get(id(module), ())
    shared = max(kernel._smem, kernel._last_trace_smem)
    located = _located(module, contexts[-1].calls)
    return Trace(emit(module), emit(located), kernel._fn.__name__, tuple(maps), shared)


class _Statements(list[Any]):
    """The statements of a trace; one that replaces another keeps its lines."""

    def __init__(self, calls: dict[int, tuple[Any, tuple[_Call, ...]]]) -> None:
        super().__init__()
        self._calls = calls

    def __setitem__(self, index: Any, statement: Any) -> None:
        if not isinstance(index, slice) and id(self[index]) in self._calls:
            self._calls[id(statement)] = statement, self._calls[id(self[index])][1]
        super().__setitem__(index, statement)


@contextmanager
def _recorded(own: str) -> Iterator[list[Any]]:
    """Let traces record lines; yields the contexts of all traces, of which the last is the result."""
    found: list[Any] = []
    original: Any = pyptx._trace.TraceContext

    class LocatedContext(original):  # type: ignore[misc]  # pyptx has no type information
        def __init__(self, **keywords: Any) -> None:
            super().__init__(**keywords)
            # A statement is kept as long as its number stands for it.
            self.calls: dict[int, tuple[Any, tuple[_Call, ...]]] = {}
            self.statements = _Statements(self.calls)
            found.append(self)

        def emit(self, stmt: Any) -> None:
            super().emit(stmt)
            if isinstance(stmt, Instruction):
                self.calls[id(stmt)] = stmt, _calls(sys._getframe(1), own)

    pyptx._trace.TraceContext = LocatedContext
    try:
        yield found
    finally:
        pyptx._trace.TraceContext = original


def _calls(frame: FrameType | None, own: str) -> tuple[_Call, ...]:
    """Return the user's lines on the stack up to the kernel's function, the innermost first."""
    found: list[_Call] = []
    while frame is not None and len(found) < _MOST_CALLS:
        code = frame.f_code
        if code.co_name == _TRACED and code.co_filename.startswith(PYPTX_FOLDER):
            break
        if is_user_file(code.co_filename, own):
            found.append(_Call(code.co_filename, *_position(frame), code.co_name))
        frame = frame.f_back
    return tuple(found)


def _position(frame: FrameType) -> tuple[int, int]:
    """Return line and column of the expression that a frame executes, from 1."""
    positions = list(frame.f_code.co_positions())
    index = frame.f_lasti // 2
    if 0 <= index < len(positions):
        line, _, column, _ = positions[index]
        if line is not None and column is not None:
            return line, column + 1
    return frame.f_lineno, 1


class _Lines:
    """The ``.loc`` lines of a module, its files and the names of its functions."""

    def __init__(self, calls: Mapping[int, tuple[Any, tuple[_Call, ...]]]) -> None:
        self._calls = calls
        self._last: tuple[_Call, ...] = ()
        self.files: dict[str, int] = {}
        self.functions: dict[str, int] = {}

    def located(self, statements: Sequence[Any]) -> Iterator[Any]:
        """Yield the statements, each instruction after its lines where they change."""
        for statement in statements:
            if isinstance(statement, Block | IntrinsicScope):
                yield replace(statement, body=tuple(self.located(statement.body)))
                continue
            _, calls = self._calls.get(id(statement), (None, ()))
            if calls and calls != self._last:
                self._last = calls
                yield from map(RawLine, self._lines(calls))
            yield statement

    def _lines(self, calls: Sequence[_Call]) -> Iterator[str]:
        """Yield the ``.loc`` lines of a call: those of its callers first, to which it refers."""
        outer: _Call | None = None
        for call in reversed(calls):
            text = f"\t.loc\t{self._place(call)}"
            if outer is not None:
                name = self.functions.setdefault(call.function, len(self.functions))
                text += f", function_name $L__info_string{name}, inlined_at {self._place(outer)}"
            yield text
            outer = call

    def _place(self, call: _Call) -> str:
        file = self.files.setdefault(call.path, len(self.files) + 1)
        return f"{file} {call.line} {call.column}"


def _located(module: Any, calls: Mapping[int, tuple[Any, tuple[_Call, ...]]]) -> Any:
    """Return a module with the lines of its instructions."""
    lines = _Lines(calls)
    directives = [
        replace(one, body=tuple(lines.located(one.body))) if isinstance(one, Function) else one
        for one in module.directives
    ]
    files = [RawLine(f'.file\t{number} "{_escaped(path)}"') for path, number in lines.files.items()]
    names = [RawLine(_debug_strings(lines.functions))] if lines.functions else []
    return replace(module, directives=(*directives, *files, *names))


def _escaped(path: str) -> str:
    return path.replace("\\", "\\\\").replace('"', '\\"')


def _debug_strings(functions: Mapping[str, int]) -> str:
    """Return the section with the names of functions that call sites refer to."""
    lines = [".section\t.debug_str", "{"]
    for name, number in functions.items():
        data = ", ".join(str(byte) for byte in (*name.encode(), 0))
        lines += [f"$L__info_string{number}:", f"\t.b8 {data}"]
    return "\n".join([*lines, "}"])
