"""Load and call the user's NumPy reference. Only ever in a worker: the code is the user's and may do anything.

The file is executed afresh each time it is loaded, helper modules of its folder included; what it prints goes nowhere.
"""

from __future__ import annotations

import contextlib
import importlib.abc
import importlib.util
import inspect
import io
import sys
import time
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.oracle import inputs as reference_inputs
from gpuemu_lsp.engine.oracle.inputs import input_tensors, widened
from gpuemu_lsp.engine.oracle.outputs import ReferenceFailure, ReferenceOutput, read_outputs
from gpuemu_lsp.engine.oracle.rounding import MonteCarloArithmetic
from gpuemu_lsp.engine.oracle.trace import traced, traced_globals, traced_scalar
from gpuemu_lsp.engine.plan.model import Plan

_MODULE = "gpuemu_reference"


@dataclass(frozen=True, slots=True)
class Reference:
    """A loaded reference. ``accepted`` are its named parameters after the first; ``everything`` means ``**kwargs``.

    ``folder`` is where the script and its neighbours really are.
    """

    path: str
    folder: str
    function: Callable[..., Any]
    accepted: tuple[str, ...]
    everything: bool


def load(path: str, function: str = "reference") -> Reference:
    """Execute the reference script and find its function.

    Raises
    ------
    ReferenceFailure
        If the script fails, or has no such function.
    """
    loader = _FreshLoader(path)
    spec = importlib.util.spec_from_loader(_MODULE, loader, origin=path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    module.__file__ = path
    folder = str(Path(path).resolve().parent)
    with _users_world(folder), _failures(path, "the reference script failed"):
        loader.exec_module(module)
    found = getattr(module, function, None)
    if not callable(found):
        raise ReferenceFailure("reference/error", _no_function(module, function, path), path)
    accepted, everything = _parameters(found)
    return Reference(path, folder, found, accepted, everything)


def call(reference: Reference, plan: Plan, case: Case) -> ReferenceOutput:
    """Call the reference with a case's exact values.

    Raises
    ------
    ReferenceFailure
        If it raises, exits, or returns something that does not fit the declared outputs.
    """
    return call_with(reference, plan, case, exact_inputs(plan, case))


def exact_inputs(plan: Plan, case: Case) -> dict[str, Array]:
    """Return a case's input tensors by parameter name, widened."""
    return {arg.param: widened(case.tensors[arg.param], arg.dtype) for arg in input_tensors(plan)}


def call_with(
    reference: Reference,
    plan: Plan,
    case: Case,
    tensors: Mapping[str, Array],
    arithmetic: MonteCarloArithmetic | None = None,
) -> ReferenceOutput:
    """Call the reference with other values of the same shapes, in fp64 or, traced, with the rounding of an arithmetic.

    The arrays are handed over as they are: the caller gives copies.

    Raises
    ------
    ReferenceFailure
        As for :func:`call`.
    """
    given = {name: traced(value, arithmetic) for name, value in tensors.items()} if arithmetic else dict(tensors)
    wrap = float if arithmetic is None else partial(traced_scalar, arithmetic)
    mapping = reference_inputs.build(plan, case, given, wrap)
    extra = reference_inputs.keywords(plan, case, reference.accepted, reference.everything, wrap)
    overflows: list[str] = []
    start = time.perf_counter()
    with _users_world(reference.folder), traced_globals(reference.function, arithmetic):
        with (
            _failures(reference.path, "the reference failed"),
            np.errstate(over="call", call=lambda kind, _: overflows.append(kind)),
        ):
            result = reference.function(mapping, **extra)
        seconds = time.perf_counter() - start
        output = read_outputs(reference.path, plan, case, given, result, seconds)
    return replace(output, overflowed=bool(overflows))


def same_outputs(left: ReferenceOutput, right: ReferenceOutput) -> bool:
    """Say whether two calls gave the same, NaN equal to NaN."""
    return all(
        np.array_equal(value, right.arrays[name], equal_nan=value.dtype.kind == "f")
        for name, value in left.arrays.items()
    )


# ---- the user's world ------------------------------------------------------------------------------------------------


class _FreshLoader(importlib.abc.SourceLoader):
    """Reads the script's text every time: a bytecode cache would go by a clock that is too coarse for saves."""

    def __init__(self, path: str) -> None:
        self._path = path

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str) -> bytes:
        return Path(path).read_bytes()

    def source_to_code(self, data: Any, path: Any, *, _optimize: int = -1) -> CodeType:  # type: ignore[override]
        return super().source_to_code(data, self._path)


@contextlib.contextmanager
def _users_world(folder: str) -> Iterator[None]:
    """Let the script import its neighbours, see no warnings of ours, print nowhere, and leave no module behind."""
    before = list(sys.modules)
    bytecode, sys.dont_write_bytecode = sys.dont_write_bytecode, True
    sys.path.insert(0, folder)
    sink = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace")  # with a buffer, as real streams have
    try:
        with (
            contextlib.redirect_stdout(sink),
            contextlib.redirect_stderr(sink),
            warnings.catch_warnings(),
            np.errstate(all="ignore"),
        ):
            warnings.simplefilter("ignore")
            yield
    finally:
        sys.dont_write_bytecode = bytecode
        if folder in sys.path:
            sys.path.remove(folder)
        for name in _imported_since(before):
            if _is_neighbour(getattr(sys.modules[name], "__file__", None), folder):
                del sys.modules[name]


def _imported_since(before: list[str]) -> set[str]:
    """Return the modules that are new. They come last: mostly there are none, and a case asks a dozen times."""
    if len(sys.modules) == len(before) and next(reversed(sys.modules)) == before[-1]:
        return set()
    return set(sys.modules) - set(before)


def _is_neighbour(file: str | None, folder: str) -> bool:
    """Whether a module is the user's own, beside the script.

    An environment inside the project is not: it stays loaded.
    """
    if not file or not Path(file).is_relative_to(folder):
        return False
    return not {"site-packages", "dist-packages"} & set(Path(file).parts)


@contextlib.contextmanager
def _failures(path: str, what: str) -> Iterator[None]:
    """Turn anything the user's code raises, exits and interrupts included, into a ReferenceFailure."""
    try:
        yield
    except BaseException as error:
        line = error.lineno if isinstance(error, SyntaxError) and error.filename == path else _line(error, path)
        reason = f"{type(error).__name__}: {_text(error)}" if _text(error) else type(error).__name__
        raise ReferenceFailure("reference/error", f"{what}: {reason}", path, line) from error


def _text(error: BaseException) -> str:
    if isinstance(error, KeyError) and error.args and isinstance(error.args[0], str):
        return error.args[0]
    return str(error)


def _line(error: BaseException, path: str) -> int | None:
    """Return the innermost line of the script itself that was being executed."""
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == path]
    return lines[-1] if lines else None


def _no_function(module: ModuleType, function: str, path: str) -> str:
    own = [name for name, value in vars(module).items() if inspect.isfunction(value) and value.__module__ == _MODULE]
    public = [name for name in own if not name.startswith("_")]
    hint = f'; to use another function write reference = "{Path(path).name}:{public[0]}"' if public else ""
    return f"{Path(path).name} has no function '{function}'{hint}"


def _parameters(function: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    try:
        parameters = list(inspect.signature(function).parameters.values())
    except (TypeError, ValueError):
        return (), False
    named = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    accepted = tuple(parameter.name for parameter in parameters[1:] if parameter.kind in named)
    return accepted, any(parameter.kind == inspect.Parameter.VAR_KEYWORD for parameter in parameters)
