"""Loading and calling the user's NumPy reference.

This runs in worker processes only, because it executes the user's code. Each load executes the file again, including
the helper modules of its folder; its output is discarded.
"""

from __future__ import annotations

import ast
import contextlib
import importlib.abc
import importlib.util
import inspect
import io
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from gpuemu_lsp.engine.compile.torch_devices import importing
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.oracle import inputs as reference_inputs
from gpuemu_lsp.engine.oracle.arithmetic import Numerics
from gpuemu_lsp.engine.oracle.inputs import input_tensors, widened
from gpuemu_lsp.engine.oracle.opened_files import recorded_files
from gpuemu_lsp.engine.oracle.outputs import ReferenceFailure, ReferenceOutput, read_outputs
from gpuemu_lsp.engine.oracle.rounding import MonteCarloArithmetic
from gpuemu_lsp.engine.oracle.scripts.script_processes import processor_seconds
from gpuemu_lsp.engine.oracle.scripts.stdin_scripts import StdinScript, is_stdin_script
from gpuemu_lsp.engine.oracle.torch_reference import (
    as_arrays,
    as_tensors,
    may_use_torch,
    rounding_operations,
    uses_torch,
)
from gpuemu_lsp.engine.oracle.trace import traced, traced_globals, traced_scalar
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.regular_file import file_bytes, readable_text

_MODULE = "gpuemu_reference"
_READ_ONLY = "read-only"
"""In NumPy's text of the ValueError about an array that may not be written."""


@dataclass(frozen=True, slots=True)
class Reference:
    """A loaded reference function.

    ``accepted`` are its named parameters after the first; ``everything`` is True if it takes ``**kwargs``. ``folder``
    is the script's folder with symbolic links resolved, from which it may import.
    """

    path: str
    folder: str
    function: Callable[..., Any]
    accepted: tuple[str, ...]
    everything: bool
    torch: bool = False
    """It computes with PyTorch, on tensors."""
    either: bool = False
    """It may also be meant for tensors where ``torch`` is False, and for arrays where it is True."""
    live: bool = False
    """Of a running program, whose streams, import path, globals and devices stay. New arrays are not traced."""
    separate: bool = False
    """Evaluated in a process of its own, where its intermediate results are not traced."""

    @property
    def result_line(self) -> int | None:
        """The 1-based line of the function's only ``return``, or of its ``def`` if it has several or none.

        None if the function is not written in the script, but imported or built there.
        """
        # A decorator such as functools.wraps leaves the user's function below its wrapper.
        code = getattr(inspect.unwrap(self.function), "__code__", None)
        if code is None or code.co_filename != self.path:
            return None
        for node in ast.walk(ast.parse(file_bytes(self.path))):
            if not isinstance(node, ast.FunctionDef):
                continue
            # A code object starts at the first decorator.
            first = min([node.lineno, *(item.lineno for item in node.decorator_list)])
            if first == code.co_firstlineno:
                # Which of several returns was taken is not known after the call, so the `def` stands for all of them.
                returns = [item.lineno for item in _own_statements(node) if isinstance(item, ast.Return)]
                return returns[0] if len(returns) == 1 else node.lineno
        line: int = code.co_firstlineno  # a lambda
        return line


@dataclass(frozen=True, slots=True)
class ReferenceEvaluation:
    """A reference evaluated on one case, and the kernel arithmetic that its error budget is derived for."""

    reference: Reference
    plan: Plan
    case: Case
    expected: ReferenceOutput
    numerics: Numerics


def load(path: str, function: str = "reference") -> Reference:
    """Execute the reference script and return its function.

    Raises
    ------
    ReferenceFailure
        If the script fails, or has no such function.
    """
    if is_stdin_script(path, function):
        folder = str(Path(path).resolve().parent)
        return Reference(path, folder, StdinScript(path, folder), (), everything=True, separate=True)
    loader = _FreshLoader(path)
    spec = importlib.util.spec_from_loader(_MODULE, loader, origin=path)
    assert spec is not None
    # Not through `import`: the module must not enter sys.modules, where two references would replace each other.
    module = importlib.util.module_from_spec(spec)
    module.__file__ = path
    folder = str(Path(path).resolve().parent)
    failures = _reference_failures(path, "the reference script failed")
    with _script_environment(folder), failures, importing(readable_text(path) or ""):
        loader.exec_module(module)
    found = getattr(module, function, None)
    if not callable(found):
        raise ReferenceFailure("reference/error", _no_function(module, function, path), path)
    accepted, everything = _parameters(found)
    return Reference(path, folder, found, accepted, everything, uses_torch(found), may_use_torch(found))


def call(reference: Reference, plan: Plan, case: Case) -> ReferenceOutput:
    """Call the reference with a case's exact values.

    Raises
    ------
    ReferenceFailure
        If it raises, exits, or returns something that does not fit the declared outputs.
    """
    tensors = exact_inputs(plan, case)
    output = call_with(reference, plan, case, tensors)
    # Made again and not copied before the call: widening a case is cheap, and holding both during the call is not.
    before = exact_inputs(plan, case)
    # An `inout` array may be changed: that is how a reference without a result returns one.
    changed = tuple(
        arg.key
        for arg in input_tensors(plan)
        if arg.direction == "in" and not _equal(tensors[arg.param], before[arg.param])
    )
    return replace(output, changed_inputs=changed)


def changing_line(reference: Reference, plan: Plan, case: Case) -> int | None:
    """Return the 1-based line on which the reference changes an input, of its ``def`` if that is not found.

    The inputs are passed as read-only arrays, for which NumPy raises ValueError where they are changed.
    """
    tensors = exact_inputs(plan, case)
    for arg in input_tensors(plan):
        tensors[arg.param].flags.writeable = arg.direction != "in"
    try:
        call_with(reference, plan, case, tensors)
    except ReferenceFailure as failure:
        # Any other failure has its own cause, and its line need not be where an input is changed.
        cause = failure.__cause__
        if isinstance(cause, ValueError) and _READ_ONLY in str(cause) and failure.line is not None:
            return failure.line
    code = getattr(inspect.unwrap(reference.function), "__code__", None)
    return code.co_firstlineno if code is not None and code.co_filename == reference.path else None


def exact_inputs(plan: Plan, case: Case) -> dict[str, Array]:
    """Return the input tensors of a case by parameter name, widened as the reference takes them."""
    return {arg.param: widened(case.tensors[arg.param], arg.dtype) for arg in input_tensors(plan)}


def call_with(
    reference: Reference,
    plan: Plan,
    case: Case,
    tensors: Mapping[str, Array],
    arithmetic: MonteCarloArithmetic | None = None,
) -> ReferenceOutput:
    """Call the reference with other values of the same shapes.

    With ``arithmetic`` the call is traced: every operation rounds as in that arithmetic. The reference may modify
    ``tensors`` in place, so the caller passes copies that it does not use again.

    Raises
    ------
    ReferenceFailure
        As for :func:`call`.
    """
    # Read-only arrays are to show where the reference changes them.
    if not reference.either or not all(value.flags.writeable for value in tensors.values()):
        return _call_once(reference, plan, case, tensors, arithmetic)
    untouched = {name: value.copy() for name, value in tensors.items()}
    try:
        return _call_once(reference, plan, case, tensors, arithmetic)
    except ReferenceFailure as failure:
        # The names in a function do not show whether it is meant for arrays or for tensors: a method may be either's.
        if not isinstance(failure.__cause__, AttributeError | TypeError | ValueError | RuntimeError):
            raise
        other = replace(reference, torch=not reference.torch)
        try:
            output = _call_once(other, plan, case, untouched, arithmetic)
        except ReferenceFailure:
            raise failure from failure.__cause__
        for name, value in untouched.items():
            tensors[name][...] = value
        return output


def _call_once(
    reference: Reference,
    plan: Plan,
    case: Case,
    tensors: Mapping[str, Array],
    arithmetic: MonteCarloArithmetic | None,
) -> ReferenceOutput:
    given = {name: traced(value, arithmetic) for name, value in tensors.items()} if arithmetic else dict(tensors)
    wrap = float if arithmetic is None else partial(traced_scalar, arithmetic)
    environment = traced_globals(reference.function, None if reference.live else arithmetic)
    if reference.torch:
        given, wrap = as_tensors(tensors), float
        environment = rounding_operations(arithmetic, live=reference.live)
    mapping = reference_inputs.build(plan, case, given, wrap)
    extra = reference_inputs.keywords(plan, case, reference.accepted, reference.everything, wrap)
    overflows: list[str] = []
    start = processor_seconds()
    around = np.errstate(all="ignore") if reference.live else _script_environment(reference.folder)
    with around, environment:
        with (
            _reference_failures(reference.path, "the reference failed"),
            # A callback and not a warning: an overflow must neither stop the reference nor depend on warning filters.
            np.errstate(over="call", call=lambda kind, _: overflows.append(kind)),
        ):
            result = reference.function(mapping, **extra)
        seconds = processor_seconds() - start
        if reference.torch:
            result, given = as_arrays(result, arithmetic), dict(tensors)
        try:
            output = read_outputs(reference.path, plan, case, given, result, seconds)
        except ReferenceFailure as failure:
            # The call itself succeeded: there is no traceback that would name a line of the script.
            failure.line = _result_line(reference)
            raise
    return replace(output, overflowed=bool(overflows))


def _equal(left: Array, right: Array) -> bool:
    return np.array_equal(left, right, equal_nan=right.dtype.kind == "f")


def _result_line(reference: Reference) -> int | None:
    try:
        return reference.result_line
    except (OSError, SyntaxError, ValueError):  # the file was saved again during the check
        return None


def _own_statements(function: ast.FunctionDef) -> Iterator[ast.AST]:
    """Yield the nodes of a function without those of functions and classes inside it."""
    pending: list[ast.AST] = [*function.body]
    while pending:
        node = pending.pop()
        yield node
        if not isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef | ast.Lambda):
            pending += ast.iter_child_nodes(node)


def same_outputs(left: ReferenceOutput, right: ReferenceOutput) -> bool:
    """Return whether two calls returned the same values; NaN equals NaN."""
    return all(
        np.array_equal(value, right.arrays[name], equal_nan=value.dtype.kind == "f")
        for name, value in left.arrays.items()
    )


# ---- environment of the user's script --------------------------------------------------------------------------------


class _FreshLoader(importlib.abc.SourceLoader):
    """Loader without a bytecode cache: its key, the file's time stamp, is too coarse for consecutive saves."""

    def __init__(self, path: str) -> None:
        self._path = path

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str) -> bytes:
        return file_bytes(path)

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        return super().source_to_code(data, self._path)


@contextlib.contextmanager
def _script_environment(folder: str) -> Iterator[None]:
    """Let the script import from its folder; discard its output and warnings; unload its modules afterwards."""
    before = list(sys.modules)
    # No __pycache__ may appear in the user's folder.
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, folder)
    # Not io.StringIO: scripts may use sys.stdout.buffer, which only a TextIOWrapper has.
    sink = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace")
    try:
        with (
            contextlib.redirect_stdout(sink),
            contextlib.redirect_stderr(sink),
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
            recorded_files(),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.dont_write_bytecode = bytecode
        if folder in sys.path:
            sys.path.remove(folder)
        for name in _imported_since(before):
            if _is_own_module(getattr(sys.modules[name], "__file__", None), folder):
                del sys.modules[name]


def _imported_since(before: list[str]) -> set[str]:
    """Return the modules that were imported since.

    ``sys.modules`` keeps the order of insertion, so an unchanged length and last entry mean that there are none. A
    case evaluates the reference about a dozen times, which makes the set difference worth avoiding.
    """
    if len(sys.modules) == len(before) and next(reversed(sys.modules)) == before[-1]:
        return set()
    return set(sys.modules) - set(before)


def _is_own_module(file: str | None, folder: str) -> bool:
    """Return whether a module belongs to the script's folder; installed packages below it stay loaded."""
    if not file or not Path(file).is_relative_to(folder):
        return False
    return not {"site-packages", "dist-packages"} & set(Path(file).parts)


@contextlib.contextmanager
def _reference_failures(path: str, what: str) -> Iterator[None]:
    """Convert everything the user's code raises, SystemExit and KeyboardInterrupt included, to ReferenceFailure."""
    try:
        yield
    except BaseException as error:
        # A SyntaxError of the script has no frame in it: its own line is used.
        line = error.lineno if isinstance(error, SyntaxError) and error.filename == path else _line(error, path)
        if isinstance(error, ModuleNotFoundError) and error.name == "torch":
            missing = f"{what}: it needs PyTorch, which is not installed here; pip install torch"
            raise ReferenceFailure("engine/not-executed", missing, path, line) from error
        reason = f"{type(error).__name__}: {_text(error)}" if _text(error) else type(error).__name__
        raise ReferenceFailure("reference/error", f"{what}: {reason}", path, line) from error


def _text(error: BaseException) -> str:
    # str() of a KeyError is the repr of its argument, with quotes round the message.
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        return error.args[0]
    return str(error)


def _line(error: BaseException, path: str) -> int | None:
    """Return the innermost line of the script itself in the traceback."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return lines[-1] if lines else None


def _no_function(module: ModuleType, function: str, path: str) -> str:
    own = [name for name, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == _MODULE]
    public = [name for name in own if not name.startswith("_")]
    # The usual mistake is a function of another name: the message shows the setting that selects it.
    hint = f'; to use another function write reference = "{Path(path).name}:{public[0]}"' if public else ""
    return f"{Path(path).name} has no function '{function}'{hint}"


def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    # Callables written in C may have no signature; they are called with the inputs alone.
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return (), False
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    accepted = tuple(parameter.name for parameter in parameters[1:] if parameter.kind in named)
    return accepted, any(parameter.kind == inspect.Parameter.VAR_KEYWORD for parameter in parameters)
