"""Scripts that read the inputs of one call as JSON from their standard input and write the output.

The input is ``{"inputs": {name: {"shape", "strides", "dtype", "data"}}, "kwargs": {name: text}}``, strides in elements
and data in base64; the output one such tensor, or an object of tensors by name. Each call is a process of its own
(:mod:`.script_processes`), which is ended with all processes that it started when it exceeds the time limit of the
call. Calls in which the operations shall round are made by :mod:`.traced_scripts`.
"""

from __future__ import annotations

import ast
import base64
import binascii
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype
from gpuemu_lsp.engine.fuzz.model import Array
from gpuemu_lsp.engine.oracle.scripts.script_processes import ScriptServerError, run_script
from gpuemu_lsp.engine.oracle.scripts.traced_scripts import traced_output
from gpuemu_lsp.engine.oracle.trace import arithmetic_of
from gpuemu_lsp.engine.regular_file import file_text

_ENVIRONMENTS = (".venv", "venv")


class ScriptError(Exception):
    """The script failed, or its output is not a tensor; the message is for the user."""


def is_stdin_script(path: str, function: str) -> bool:
    """Return whether a file is such a script: it has no function of this name, and a main part or uses ``stdin``."""
    try:
        text = file_text(path)
        tree = ast.parse(text)
    except (OSError, ValueError, SyntaxError):
        return False
    bound = {name for node in tree.body for name in _bound(node)}
    return not {function, "*"} & bound and ("__main__" in text or "stdin" in text)


def _bound(node: ast.stmt) -> list[str]:
    if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
        return [node.name]
    if isinstance(node, ast.Import | ast.ImportFrom):
        return [(alias.asname or alias.name).partition(".")[0] for alias in node.names]
    # Assignments, also those in `if` and `try` of the module.
    names = [one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)]
    return names + [one.name for one in ast.walk(node) if isinstance(one, ast.FunctionDef)]


def project_python(folder: str) -> str:
    """Return the interpreter of the project that a folder is of.

    It is that of the virtual environment in the folder, or in one above it up to that of gpuemu.toml; else of the
    active environment; else that of this process.
    """
    candidates = []
    for place in (Path(folder), *Path(folder).parents):
        candidates += [place / name for name in _ENVIRONMENTS]
        if (place / "gpuemu.toml").is_file():
            break
    else:
        candidates = candidates[: len(_ENVIRONMENTS)]
    active = os.environ.get("VIRTUAL_ENV")
    for environment in (*candidates, *([Path(active)] if active else [])):
        for name in ("bin/python", "Scripts/python.exe"):
            if (environment / name).is_file():
                return str(environment / name)
    return sys.executable


@dataclass(frozen=True, slots=True)
class StdinScript:
    """A script as a function of inputs and keyword arguments.

    ``folder`` is that of the project, or one in it. ``python`` is the interpreter, None for that of the project.
    """

    path: str
    folder: str
    python: str | None = None

    def __call__(self, inputs: Mapping[str, Any], **kwargs: Any) -> Any:
        """Run the script; return an array, or a dict of arrays.

        Raises
        ------
        ScriptError
            If it fails, or its output is not as described.
        """
        arrays = {name: value for name, value in inputs.items() if isinstance(value, np.ndarray)}
        scalars = {name: value for name, value in inputs.items() if name not in arrays}
        document = {
            "inputs": {name: _encoded(np.asarray(value)) for name, value in arrays.items()},
            "kwargs": {name: _text(value) for name, value in {**scalars, **kwargs}.items()},
        }
        data, arithmetic = json.dumps(document).encode(), arithmetic_of(arrays.values())
        output = traced_output(self.path, data, arithmetic) if arithmetic is not None else None
        return _decoded_output(self._run(data) if output is None else output, Path(self.path).name)

    def _run(self, data: bytes) -> bytes:
        try:
            done = run_script(self.python or project_python(self.folder), self.path, data)
        except ScriptServerError as error:
            raise ScriptError(str(error)) from error
        if done.status != 0:
            lines = done.errors.decode("utf-8", "replace").strip().splitlines()
            reason = lines[-1] if lines else "no message"
            how = f"exit code {done.status}" if done.status > 0 else f"signal {signal.Signals(-done.status).name}"
            raise ScriptError(f"{Path(self.path).name} ended with {how}: {reason}")
        return done.output


def _encoded(array: Array) -> dict[str, Any]:
    plain = np.ascontiguousarray(array)
    strides = [step // max(1, plain.itemsize) for step in plain.strides]
    data = base64.b64encode(plain.tobytes()).decode("ascii")
    return {"shape": list(array.shape), "strides": strides, "dtype": array.dtype.name, "data": data}


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return json.dumps(value) if isinstance(value, tuple) else str(value)


def _decoded_output(output: bytes, name: str) -> Any:
    text = output.decode("utf-8", "replace").strip()
    try:
        # A script may print before it writes its output.
        document = json.loads(text if text.startswith("{") else text[text.rfind("\n") + 1 :])
    except ValueError as error:
        shown = f"{text[:80]}..." if len(text) > 80 else text
        raise ScriptError(f"{name} wrote no JSON object: {shown!r}") from error
    if not isinstance(document, dict):
        raise ScriptError(f"{name} wrote {type(document).__name__}, not an object with shape, dtype and data")
    if "data" in document:
        return _decoded(document, "the output", name)
    tensors = document.get("outputs", document)
    if not isinstance(tensors, dict) or not tensors:
        raise ScriptError(f"{name} wrote an object without data")
    return {key: _decoded(value, key, name) for key, value in tensors.items()}


def _decoded(value: Any, what: str, name: str) -> Array:
    if not isinstance(value, dict) or not {"shape", "dtype", "data"} <= value.keys():
        raise ScriptError(f"{name}: {what} needs shape, dtype and data")
    try:
        dtype = numpy_dtype(str(value["dtype"]).removeprefix("torch."))
        shape = tuple(int(extent) for extent in value["shape"])
        data = base64.b64decode(value["data"], validate=True)
    except (TypeError, ValueError, AttributeError, binascii.Error) as error:
        raise ScriptError(f"{name}: {what} is not a tensor: {error}") from error
    size = dtype.itemsize * int(np.prod(shape))
    if len(data) != size:
        have, need = len(data) // dtype.itemsize, int(np.prod(shape))
        message = f"{name}: {what} has {have} elements ({len(data)} bytes); its shape {list(shape)} needs {need}"
        raise ScriptError(message)
    return np.frombuffer(data, dtype).reshape(shape).copy()
