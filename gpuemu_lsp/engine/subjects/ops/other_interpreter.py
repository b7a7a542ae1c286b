"""A function in the interpreter of the project, where that is not the one that gpuemu-lsp runs in.

The function is imported in a process of that interpreter, which :mod:`.call_server` describes; it is kept for all calls
of a check, ended when one exceeds its time limit, and started again by the next.
"""

from __future__ import annotations

import contextlib
import inspect
import json
import os
import signal
import struct
import subprocess
import tempfile
import weakref
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype
from gpuemu_lsp.engine.fuzz.model import Array
from gpuemu_lsp.engine.workers.system import die_with_parent

_SERVER = Path(__file__).with_name("call_server.py")


@dataclass
class InterpreterError(Exception):
    """The interpreter cannot be started, or ended during a call; the message is for the user."""

    message: str


@dataclass
class RemoteError(Exception):
    """An exception of the function or its module, with the files and 1-based lines that it passed.

    ``missing`` is the module that is not installed.
    """

    message: str
    frames: tuple[tuple[str, int], ...]
    missing: str | None = None


@dataclass(slots=True, weakref_slot=True)
class RemoteFunction:
    """A function of a module in another interpreter; arrays of the arguments are NumPy's.

    ``python`` is the path of the interpreter, ``target`` is ``module:function``, ``folders`` precede its import path.
    """

    python: str
    target: str
    folders: tuple[str, ...]
    frameworks: tuple[str, ...] = ()
    __signature__: inspect.Signature | None = None
    _process: subprocess.Popen[bytes] | None = field(default=None, repr=False)
    _errors: Any = field(default=None, repr=False)

    def start(self) -> bool:
        """Import the function; return whether there is a callable of this name.

        Raises
        ------
        InterpreterError
            If the interpreter cannot be started.
        RemoteError
            If its module cannot be imported.
        """
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - lives as long as the process
        try:
            self._process = subprocess.Popen(
                [self.python, str(_SERVER)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                cwd=self.folders[0],
                env={name: value for name, value in os.environ.items() if name != "PYTHONHOME"},
                start_new_session=True,
                preexec_fn=partial(die_with_parent, os.getpid()),
            )
        except OSError as error:
            raise InterpreterError(f"the interpreter {self.python} cannot be started: {error.strerror}") from error
        weakref.finalize(self, _end, self._process)
        module, _, name = self.target.partition(":")
        request = {"module": module, "name": name, "folders": self.folders, "frameworks": self.frameworks}
        answer, _ = self._exchange({**request, "own": str(_SERVER.parent)}, [])
        self.__signature__ = _signature(answer["parameters"])
        return bool(answer["callable"])

    def __call__(self, *positional: Any, **named: Any) -> Any:
        """Call the function; arrays that it changes are changed.

        Raises
        ------
        InterpreterError
            If the process ends.
        RemoteError
            If the function raises an exception.
        """
        if self._process is None:
            self.start()
        arrays: list[Array] = []
        request = {
            "positional": [_argument(value, arrays) for value in positional],
            "named": {name: _argument(value, arrays) for name, value in named.items()},
        }
        request["arrays"] = [
            {
                "dtype": array.dtype.name,
                "shape": array.shape,
                "strides": [step // max(1, array.itemsize) for step in array.strides],
            }
            for array in arrays
        ]
        answer, blobs = self._exchange(request, [array.tobytes() for array in arrays])
        blob = iter(blobs)
        result = _result(answer["result"], blob)
        for index in answer["changed"]:
            arrays[index][...] = np.frombuffer(next(blob), arrays[index].dtype).reshape(arrays[index].shape)
        return result

    def _exchange(self, message: Mapping[str, Any], blobs: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        process = self._process
        assert process is not None and process.stdin is not None and process.stdout is not None
        complete = False
        try:
            text = json.dumps({**message, "sizes": [len(blob) for blob in blobs]}).encode()
            process.stdin.write(b"".join([struct.pack("<Q", len(text)), text, *blobs]))
            process.stdin.flush()
            answer = json.loads(_read(process, struct.unpack("<Q", _read(process, 8))[0]))
            returned = [_read(process, size) for size in answer["sizes"]]
            complete = True
        except (OSError, EOFError) as error:
            raise InterpreterError(self._why_ended(process)) from error
        finally:
            # Also on a time limit: what remains of the answer must not be taken for that of the next call.
            if not complete:
                self._process = None
                _end(process)
        if "error" in answer:
            frames = tuple((str(path), int(line or 0)) for path, line in answer["frames"])
            raise RemoteError(answer["error"], frames, answer["missing"])
        return answer, returned

    def _why_ended(self, process: subprocess.Popen[bytes]) -> str:
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(5.0)
        code = process.returncode
        self._errors.seek(0)
        lines = self._errors.read()[-4000:].decode("utf-8", "replace").strip().splitlines()
        how = f"signal {signal.Signals(-code).name}" if code is not None and code < 0 else f"exit code {code}"
        return f"{self.python} ended with {how}" + (f": {lines[-1]}" if lines else "")


def _read(process: subprocess.Popen[bytes], size: int) -> bytes:
    assert process.stdout is not None
    data = process.stdout.read(size)
    if len(data) < size:
        raise EOFError
    return data


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a process with all processes that it started."""
    if process.returncode is None:  # else the number may be that of another process by now
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, signal.SIGKILL)
    for stream in (process.stdin, process.stdout):
        with contextlib.suppress(OSError, ValueError):
            if stream is not None:
                stream.close()
    process.wait()


def _argument(value: Any, arrays: list[Array]) -> Any:
    if isinstance(value, np.ndarray):
        arrays.append(value)
        return {"array": len(arrays) - 1}
    if isinstance(value, Mapping):
        return {"mapping": {str(name): _argument(item, arrays) for name, item in value.items()}}
    if isinstance(value, tuple):
        return {"tuple": list(value)}
    return value.item() if isinstance(value, np.generic) else value


def _result(record: Mapping[str, Any], blobs: Any) -> Any:
    if "dtype" in record:
        try:
            dtype = numpy_dtype(record["dtype"])
        except (TypeError, ValueError, AttributeError, KeyError):
            dtype = np.dtype(record["dtype"])
        return np.frombuffer(next(blobs), dtype).reshape(record["shape"]).copy()
    if "mapping" in record:
        return {name: _result(item, blobs) for name, item in record["mapping"].items()}
    if "tuple" in record:
        return tuple(_result(item, blobs) for item in record["tuple"])
    if "list" in record:
        return [_result(item, blobs) for item in record["list"]]
    if "other" in record:
        # An object that is not an array, of a type with the same name.
        return type(record["other"], (), {})()
    return record["value"]


def _signature(parameters: list[tuple[str, int, bool]] | None) -> inspect.Signature | None:
    if parameters is None:
        return None
    kinds = (
        inspect.Parameter.POSITIONAL_ONLY,
        inspect.Parameter.POSITIONAL_OR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
        inspect.Parameter.KEYWORD_ONLY,
        inspect.Parameter.VAR_KEYWORD,
    )
    return inspect.Signature(
        [
            inspect.Parameter(name, kinds[kind], default=None if optional else inspect.Parameter.empty)
            for name, kind, optional in parameters
        ]
    )
