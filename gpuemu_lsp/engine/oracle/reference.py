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
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from types import CodeType, ModuleType
from typing import Any

import numpy as np

from gpuemu_lsp.engine.fuzz.dtypes import is_float
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.pack import shape_of
from gpuemu_lsp.engine.oracle import inputs as reference_inputs
from gpuemu_lsp.engine.oracle.inputs import input_tensors, output_tensors, widened
from gpuemu_lsp.engine.oracle.rounding import Arithmetic
from gpuemu_lsp.engine.oracle.trace import plain, traced, traced_globals, traced_scalar
from gpuemu_lsp.engine.plan.model import Plan, TensorArg

_MODULE = "gpuemu_reference"


class ReferenceFailure(Exception):  # noqa: N818 - "ReferenceError" is a builtin and means something else
    """The reference cannot be used. ``rule`` says how; ``line`` is 1-based in ``path`` where the user can mend it."""

    def __init__(self, rule: str, message: str, path: str, line: int | None = None) -> None:
        super().__init__(message)
        self.rule = rule
        self.message = message
        self.path = path
        self.line = line


@dataclass(frozen=True, slots=True)
class Reference:
    """A loaded reference. ``accepted`` are its named parameters after the first; ``everything`` means ``**kwargs``."""

    path: str
    function: Callable[..., Any]
    accepted: tuple[str, ...]
    everything: bool


@dataclass(frozen=True, slots=True)
class ReferenceOutput:
    """What a reference says is right.

    ``arrays`` by parameter name: fp64 for float outputs, int64, uint64 or bool as the reference made them for the
    others. ``low_precision`` names outputs that came back narrower than fp64. ``traced`` says that every output
    carries the rounding of a traced run (see :mod:`gpuemu_lsp.engine.oracle.trace`).
    """

    arrays: Mapping[str, Array]
    seconds: float = 0.0
    low_precision: tuple[str, ...] = ()
    traced: bool = field(default=False, compare=False)
    overflowed: bool = False
    """Something exceeded fp64 on the way, so an infinity or NaN may be the reference's own failing."""


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
    with _users_world(path), _failures(path, "the reference script failed"):
        loader.exec_module(module)
    found = getattr(module, function, None)
    if not callable(found):
        raise ReferenceFailure("reference/error", _no_function(module, function, path), path)
    accepted, everything = _parameters(found)
    return Reference(path, found, accepted, everything)


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
    arithmetic: Arithmetic | None = None,
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
    with _users_world(reference.path), traced_globals(reference.function, arithmetic):
        with (
            _failures(reference.path, "the reference failed"),
            np.errstate(over="call", call=lambda kind, _: overflows.append(kind)),
        ):
            result = reference.function(mapping, **extra)
        seconds = time.perf_counter() - start
        output = _outputs(reference, plan, case, given, result, seconds)
    return replace(output, overflowed=bool(overflows))


def same(left: ReferenceOutput, right: ReferenceOutput) -> bool:
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
def _users_world(path: str) -> Iterator[None]:
    """Let the script import its neighbours, see no warnings of ours, print nowhere, and leave no module behind."""
    folder = str(Path(path).resolve().parent)
    before = set(sys.modules)
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
        for name in set(sys.modules) - before:
            if _is_neighbour(getattr(sys.modules[name], "__file__", None), folder):
                del sys.modules[name]


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


# ---- what came back --------------------------------------------------------------------------------------------------


def _outputs(
    reference: Reference, plan: Plan, case: Case, given: Mapping[str, Array], result: Any, seconds: float
) -> ReferenceOutput:
    wanted = output_tensors(plan)
    parts = _split(reference, wanted, given, result)
    arrays: dict[str, Array] = {}
    low: list[str] = []
    is_traced = True
    for arg, part in zip(wanted, parts, strict=True):
        is_traced = is_traced and isinstance(part, np.ndarray) and type(part) is not np.ndarray
        array = _as_array(reference, arg, part)
        if array.dtype.kind == "f" and array.dtype.itemsize < 8:
            low.append(arg.param)
        arrays[arg.param] = _shaped(reference, arg, _settled(array, arg), shape_of(case, arg.param))
    return ReferenceOutput(arrays, seconds, tuple(low), is_traced)


def _split(
    reference: Reference, wanted: tuple[TensorArg, ...], given: Mapping[str, Array], result: Any
) -> tuple[Any, ...]:
    """Match what was returned with the outputs: by name, by order, or by what was changed in place."""
    names = ", ".join(arg.param for arg in wanted)
    if result is None and wanted and all(arg.direction == "inout" for arg in wanted):
        return tuple(given[arg.param] for arg in wanted)
    if isinstance(result, Mapping):
        missing = [arg.param for arg in wanted if arg.key not in result and arg.param not in result]
        if missing:
            have = ", ".join(map(str, result)) or "nothing"
            raise _unusable(reference, f"it returned a dict with {have}; missing: {', '.join(missing)}")
        return tuple(result[arg.key] if arg.key in result else result[arg.param] for arg in wanted)
    if len(wanted) == 1:
        alone = isinstance(result, tuple) and len(result) == 1
        return (result[0],) if alone else (result,)
    if isinstance(result, tuple | list):
        if len(result) != len(wanted):
            raise _unusable(reference, f"it returned {len(result)} arrays for {len(wanted)} outputs ({names})")
        return tuple(result)
    raise _unusable(reference, f"it returned one {type(result).__name__} for {len(wanted)} outputs ({names})")


def _as_array(reference: Reference, arg: TensorArg, part: Any) -> Array:
    if part is None:
        raise _unusable(reference, "it returned None; return the expected output as an array")
    try:
        array: Array = plain(np.asarray(part))
    except Exception as error:
        raise _unusable(reference, f"{arg.param}: a {type(part).__name__} does not become an array: {error}") from error
    if array.dtype.kind == "V" and array.dtype.itemsize <= 2:
        narrow: Array = array.astype(np.float32)
        return narrow
    if array.dtype.kind not in "fiub":
        raise _unusable(reference, f"{arg.param}: it returned dtype {array.dtype}; numbers are needed")
    return array


def _settled(array: Array, arg: TensorArg) -> Array:
    if is_float(arg.dtype) or array.dtype.kind == "f":
        kind: type[np.generic] = np.float64
    else:
        kind = np.uint64 if array.dtype == np.uint64 else np.int64
    return array.astype(kind)


def _shaped(reference: Reference, arg: TensorArg, array: Array, shape: tuple[int, ...]) -> Array:
    """Accept the declared shape; also its elements in one row, which is what they are to C."""
    if array.shape == shape:
        return array
    if array.size == int(np.prod(shape)) and (array.ndim <= 1 or len(shape) <= 1 or array.size == 1):
        return array.reshape(shape)
    message = f"{arg.param}: it returned shape {_shape(array.shape)}, but gpuemu.toml declares {_shape(shape)}"
    raise _unusable(reference, message)


def _shape(shape: tuple[int, ...]) -> str:
    return f"[{', '.join(map(str, shape))}]"


def _unusable(reference: Reference, message: str) -> ReferenceFailure:
    return ReferenceFailure("reference/wrong-shape", f"the reference cannot be used: {message}", reference.path)
