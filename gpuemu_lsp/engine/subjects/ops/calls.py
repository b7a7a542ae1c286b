"""Import of an op and calls of it. In workers only: both execute the user's code."""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import inspect
import io
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu_lsp.engine.deadline import DeadlineError
from gpuemu_lsp.engine.extensions import extension
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.fuzz.model import Array
from gpuemu_lsp.engine.oracle.scripts.stdin_scripts import ScriptError, StdinScript, is_stdin_script, project_python
from gpuemu_lsp.engine.oracle.torch_reference import may_use_torch, uses_torch
from gpuemu_lsp.engine.project.model import OpSpec
from gpuemu_lsp.engine.regular_file import file_text
from gpuemu_lsp.engine.subjects.ops.other_interpreter import InterpreterError, RemoteError, RemoteFunction
from gpuemu_lsp.engine.subjects.ops.tensors import is_list_of_arrays, to_array, to_tensor
from gpuemu_lsp.engine.subjects.user_module import ModuleError, import_module, import_name

_DICT = "inputs"
"""Name of the first parameter of a function that takes all inputs as one mapping."""
_TORCH = frozenset({"pytorch", "torch"})


class OpFailure(Exception):  # noqa: N818 - named after what it means for the check: the op failed
    """The op cannot be imported or called. ``line`` is 1-based in ``path``, None if it is not known.

    ``raised``: the message is the type and the text of an exception, else a sentence about its process.
    """

    def __init__(self, message: str, path: str | None = None, line: int | None = None, *, raised: bool = True) -> None:
        super().__init__(message)
        self.message = message
        self.raised = raised
        self.path = path
        self.line = line


@dataclass(frozen=True, slots=True)
class Op:
    """An imported op.

    ``mapping``: it takes all inputs as one mapping. ``torch``: it takes tensors of PyTorch. ``either``: that is not
    certain, and the other kind is tried where a call fails. ``environment`` is entered for each call.
    """

    function: Callable[..., Any]
    folder: str
    mapping: bool = False
    torch: bool = False
    either: bool = False
    environment: Callable[[], contextlib.AbstractContextManager[object]] = contextlib.nullcontext


@dataclass(frozen=True, slots=True)
class Returned:
    """The result of a call, with arrays in place of tensors; ``findings`` are those of emulated launches in it.

    If a launch ran out of time, which :func:`launch_timeout` finds, the value is not that of the op.
    """

    value: Any
    op: Op
    findings: tuple[Finding, ...] = ()


def import_op(call: OpSpec, text: str | None) -> Op:
    """Import an op; ``text`` is the editor's text of its file, if it is given by a file.

    Raises
    ------
    ModuleError
        If its module cannot be imported.
    InterpreterError
        If the interpreter of the project cannot be started.
    OpFailure
        If the module has no such function.
    """
    python = interpreter_of(call)
    if call.target is not None and python is not None:
        return _import_there(call, call.target, python)
    if call.target is not None:
        module_name, _, name = call.target.partition(":")
        module: Any = import_name(module_name, (call.folder, f"{call.folder}/src"))
        function, where = _attribute(module, name), f"module {module_name}"
    elif call.op_script is not None and is_stdin_script(call.op_script, "op"):
        return Op(StdinScript(call.op_script, call.folder, call.python), call.folder, mapping=True)
    else:
        path = call.run_file or call.op_script
        assert path is not None
        name = call.run_function if call.run_file is not None else "op"
        content = file_text(path) if text is None else text
        module = import_module(path, content)
        function, where = getattr(module, name, None), Path(path).name
    if not callable(function):
        raise OpFailure(f"{where} has no function '{name}'")
    mapping = call.target is None or _takes_mapping(function)
    torch, either = _framework(call, module, function)
    environment = _emulation() if call.run_file is not None else contextlib.nullcontext
    return Op(function, call.folder, mapping, torch and not mapping, either and not mapping, environment)


def interpreter_of(call: OpSpec) -> str | None:
    """Return the interpreter that imports an op, None for the one of this process.

    Only ``op = "module:function"`` runs in another interpreter: functions of files may use the emulator.
    """
    if call.target is None:
        return None
    python = call.python or project_python(call.folder)
    # The folder: the interpreter itself is a link, in every environment to the same file.
    same = os.path.realpath(Path(python).parent) == os.path.realpath(Path(sys.executable).parent)
    return None if same else python


def _import_there(call: OpSpec, target: str, python: str) -> Op:
    folders = (call.folder, f"{call.folder}/src")
    function = RemoteFunction(python, target, folders, call.frameworks)
    try:
        found = function.start()
    except RemoteError as error:
        path, line = _own_place(error.frames, call.folder)
        raise ModuleError(error.message, path or "", line, error.missing) from error
    if not found:
        module, _, name = target.partition(":")
        raise OpFailure(f"module {module} has no function '{name}'")
    return Op(function, call.folder, _takes_mapping(function))


def _own_place(frames: Iterable[tuple[str, int | None]], folder: str) -> tuple[str | None, int | None]:
    """Return the last of the frames that is in the project."""
    own = [(path, line) for path, line in frames if _is_own(path, folder)]
    return own[-1] if own else (None, None)


def _emulation() -> Callable[[], contextlib.AbstractContextManager[object]]:
    """Return the context in which Triton's launches run in the emulator; an empty one without Triton."""
    if importlib.util.find_spec("triton") is None or importlib.util.find_spec("torch") is None:
        return contextlib.nullcontext
    return functools.partial(extension("emulated-triton"), on_finding="collect")


def call_op(
    op: Op, tensors: Mapping[str, Array], scalars: Mapping[str, Any], kwargs: Mapping[str, Any] | None = None
) -> Returned:
    """Call an op; arguments are in the order of gpuemu.toml, and ``kwargs`` are always passed by name.

    Raises
    ------
    OpFailure
        If it raises an exception or exits.
    """
    try:
        return _called(op, tensors, scalars, kwargs or {})
    except OpFailure as failure:
        if not op.either or not isinstance(failure.__cause__, AttributeError | TypeError | ValueError | RuntimeError):
            raise
        other = replace(op, torch=not op.torch, either=False)
        try:
            return _called(other, tensors, scalars, kwargs or {})
        except OpFailure:
            raise failure from failure.__cause__


def _called(op: Op, tensors: Mapping[str, Array], scalars: Mapping[str, Any], kwargs: Mapping[str, Any]) -> Returned:
    with _quiet(), op.environment() as session:
        try:
            given = {name: to_tensor(array) if op.torch else array for name, array in tensors.items()}
            positional, named = _bound(op, given, scalars)
            value = _as_arrays(op.function(*positional, **named, **kwargs))
            return Returned(value, op, getattr(session, "findings", ()))
        except DeadlineError:
            raise
        except (ScriptError, InterpreterError) as error:
            text = error.message if isinstance(error, InterpreterError) else str(error)
            raise OpFailure(text, raised=False) from error
        except RemoteError as error:
            raise OpFailure(error.message, *_own_place(error.frames, op.folder)) from error
        except BaseException as error:
            found = (*getattr(session, "findings", ()), *launch_findings(error))
            if launch_timeout(found) is not None:
                return Returned(None, op, found)
            frames = traceback.extract_tb(error.__traceback__)
            path, line = _own_place([(one.filename, one.lineno) for one in frames], op.folder)
            text = str(error).strip()
            raise OpFailure(f"{type(error).__name__}: {text}" if text else type(error).__name__, path, line) from error


def launch_findings(error: BaseException) -> tuple[Finding, ...]:
    """Return the findings of the emulated launch that an exception, or the cause of it, is about."""
    seen: BaseException | None = error
    while seen is not None:
        # By attribute: the exception is defined in the package of users, which the engine does not depend on.
        found = getattr(seen, "findings", None)
        if isinstance(found, tuple) and all(isinstance(one, Finding) for one in found):
            return found
        seen = seen.__cause__ or seen.__context__
    return ()


def launch_timeout(findings: Iterable[Finding]) -> Finding | None:
    """Return the finding of a launch that the time limit ended: its results say nothing about the op."""
    return next((one for one in findings if one.rule == "engine/timeout"), None)


def _bound(op: Op, tensors: Mapping[str, Any], scalars: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
    """Return the arguments of a call, by position and by name."""
    if op.mapping:
        accepted, everything = _accepted(op.function)
        known = {name: value for name, value in scalars.items() if everything or name in accepted}
        return [{**scalars, **tensors}], known
    try:
        parameters = inspect.signature(op.function).parameters.values()
    except (TypeError, ValueError):  # a function of a native module
        return [*tensors.values()], dict(scalars)
    by_name = {one.name for one in parameters if one.kind in (one.POSITIONAL_OR_KEYWORD, one.KEYWORD_ONLY)}
    everything = any(one.kind is one.VAR_KEYWORD for one in parameters)
    given = {**tensors, **scalars}
    if all(name in by_name for name in given):
        return [], given
    # Names of gpuemu.toml that the function does not have: tensors are then in its order.
    named = {name: value for name, value in scalars.items() if everything or name in by_name}
    rest = [value for name, value in scalars.items() if name not in named]
    return [*tensors.values(), *rest], named


def _takes_mapping(function: Callable[..., Any]) -> bool:
    try:
        parameters = [*inspect.signature(function).parameters.values()]
    except (TypeError, ValueError):
        return False
    return bool(parameters) and parameters[0].name == _DICT


def _accepted(function: Callable[..., Any]) -> tuple[frozenset[str], bool]:
    try:
        parameters = [*inspect.signature(function).parameters.values()][1:]
    except (TypeError, ValueError):
        return frozenset(), False
    return frozenset(one.name for one in parameters), any(one.kind is one.VAR_KEYWORD for one in parameters)


def _framework(call: OpSpec, module: Any, function: Callable[..., Any]) -> tuple[bool, bool]:
    """Return whether an op takes tensors, and whether the other kind is worth a try."""
    if call.frameworks:
        return bool(_TORCH & {name.lower() for name in call.frameworks}), False
    if module.__name__.partition(".")[0] == "torch":
        return True, False
    plain: Any = function
    if isinstance(plain, functools.partial):
        plain = plain.func
    if not inspect.isfunction(inspect.unwrap(plain)):
        # An object such as a torch.nn.Module, or a method.
        plain = getattr(plain, "forward", getattr(plain, "__func__", vars(type(plain)).get("__call__", plain)))
    if not inspect.isfunction(inspect.unwrap(plain)):
        return False, True
    return uses_torch(plain), may_use_torch(plain)


def _attribute(module: Any, name: str) -> Any:
    found = module
    for part in name.split("."):
        found = getattr(found, part, None)
    return found


def _as_arrays(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _as_arrays(item) for key, item in value.items()}
    if isinstance(value, tuple):
        return tuple(_as_arrays(item) for item in value)
    if is_list_of_arrays(value):
        return [_as_arrays(item) for item in value]
    return _own(to_array(value))


def _own(value: Any) -> Any:
    # A view of an input would change with it.
    return value.copy() if isinstance(value, np.ndarray) else value


def _is_own(path: str, folder: str) -> bool:
    return Path(path).is_relative_to(folder) and not {"site-packages", "dist-packages"} & set(Path(path).parts)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Discard the output and the warnings of a call."""
    sink = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="replace")
    with (
        contextlib.redirect_stdout(sink),
        contextlib.redirect_stderr(sink),
        warnings.catch_warnings(),
        np.errstate(all="ignore"),
    ):
        warnings.simplefilter("ignore")
        yield
