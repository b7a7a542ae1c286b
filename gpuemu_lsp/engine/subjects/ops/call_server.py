"""Calls of one function in the project's own interpreter.

:mod:`.other_interpreter` runs this file there, as a script: it imports the standard library and the packages of that
environment only, and its syntax is that of Python 3.8. Messages in both directions are an 8-byte length, JSON of that
length, and the bytes of the arrays in it, in order. The first message says what to import; each further one is a call.
"""

from __future__ import annotations

import importlib
import inspect
import json
import os
import struct
import sys
import traceback
import types
from collections.abc import Iterable
from typing import Any, BinaryIO

BITS = {"bfloat16": "int16", "float8_e4m3fn": "uint8", "float8_e5m2": "uint8"}
"""Types that NumPy does not have, and integers of their size."""
RETRIED = (AttributeError, TypeError, ValueError, RuntimeError)


def main() -> None:
    """Import the function and answer calls until the input ends."""
    stream_in = os.fdopen(os.dup(0), "rb")
    stream_out = os.fdopen(os.dup(1), "wb")
    # What the function prints must not enter the messages.
    null = os.open(os.devnull, os.O_RDWR)
    os.dup2(null, 0)
    os.dup2(null, 1)
    first = receive(stream_in)
    if first is None:
        return
    request = first[0]
    sys.dont_write_bytecode = True
    sys.path[:] = request["folders"] + [path for path in sys.path if path != request["own"]]
    try:
        import numpy  # noqa: F401 - shows whether it is there

        function: Any = importlib.import_module(request["module"])
        for part in request["name"].split("."):
            function = getattr(function, part, None)
        server = Server(function, request["frameworks"])
    except BaseException as error:
        send(stream_out, failure(error), [])
        return
    send(stream_out, {"callable": callable(function), "parameters": parameters(function)}, [])
    while True:
        call = receive(stream_in)
        if call is None:
            return
        try:
            send(stream_out, *server.call(*call))
        except BaseException as error:
            send(stream_out, failure(error), [])


class Server:
    """The imported function. ``tensors``: it takes tensors of PyTorch; ``either``: the other kind is worth a try."""

    def __init__(self, function: Any, frameworks: list[str]) -> None:
        self.function = function
        if frameworks:
            self.tensors, self.either = bool({"torch", "pytorch"} & set(frameworks)), False
        else:
            self.tensors, self.either = takes_tensors(function)

    def call(self, request: dict[str, Any], data: list[bytes]) -> tuple[dict[str, Any], list[bytes]]:
        """Return the message of one call: the result, and the inputs that it changed."""
        try:
            return self._call(request, data, self.tensors)
        except RETRIED:
            if not self.either:
                raise
            try:
                answer = self._call(request, data, not self.tensors)
            except BaseException:  # the first exception is the one to report
                answer = None
            if answer is None:
                raise
            self.tensors, self.either = not self.tensors, False
            return answer

    def _call(self, request: dict[str, Any], data: list[bytes], tensors: bool) -> tuple[dict[str, Any], list[bytes]]:
        convert = to_tensor if tensors else to_array
        views, given = [], []
        for one, raw in zip(request["arrays"], data):  # noqa: B905 - Python 3.8
            views.append(view_of(one, raw))
            given.append(convert(views[-1], one["dtype"]))
        before = [view.tobytes() for view in views]
        positional = [filled(value, given) for value in request["positional"]]
        named = {name: filled(value, given) for name, value in request["named"].items()}
        blobs: list[bytes] = []
        result = described(self.function(*positional, **named), blobs)
        changed = [index for index, view in enumerate(views) if view.tobytes() != before[index]]
        return {"result": result, "changed": changed}, blobs + [views[index].tobytes() for index in changed]


def takes_tensors(function: Any) -> tuple[bool, bool]:
    """Return whether a function takes tensors of PyTorch, from the names in its code, and whether that is uncertain."""
    plain = inspect.unwrap(getattr(function, "func", function))
    if not inspect.isfunction(plain):
        plain = getattr(plain, "forward", getattr(plain, "__func__", vars(type(plain)).get("__call__", plain)))
        plain = inspect.unwrap(plain)
    if not inspect.isfunction(plain):
        of_torch = (getattr(plain, "__module__", None) or "").partition(".")[0] == "torch"
        return of_torch or "Tensor" in str(type(plain)), "torch" in sys.modules
    modules = packages(plain.__globals__.values())
    named = packages(plain.__globals__.get(name) for name in names_in(plain.__code__))
    if "torch" not in modules:
        return False, False
    return ("torch" in named and "from_numpy" not in names_in(plain.__code__)) or "numpy" not in modules, True


def packages(values: Iterable[Any]) -> set[str]:
    """Return the top-level packages that objects come from."""
    found = set()
    for value in values:
        name = value.__name__ if isinstance(value, types.ModuleType) else getattr(value, "__module__", None)
        if isinstance(name, str):
            found.add(name.partition(".")[0])
    return found


def names_in(code: types.CodeType) -> set[str]:
    """Return the names that a code object and those inside it refer to."""
    found = set(code.co_names)
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found |= names_in(constant)
    return found


def view_of(described_array: dict[str, Any], raw: bytes) -> Any:
    """Return an array of bits in memory with the given strides, in elements; gaps between the rows are not zero."""
    import numpy

    dtype = numpy.dtype(BITS.get(described_array["dtype"], described_array["dtype"]))
    shape, steps = described_array["shape"], described_array["strides"]
    contiguous = numpy.frombuffer(raw, dtype).reshape(shape)
    places = zip(shape, steps)  # noqa: B905 - Python 3.8
    span = 1 + sum((size - 1) * step for size, step in places) if contiguous.size else 0
    memory = numpy.frombuffer(bytearray(b"\x7f") * (max(span, 1) * dtype.itemsize), dtype)
    view = numpy.ndarray(shape, dtype, memory.data, strides=[step * dtype.itemsize for step in steps])
    view[...] = contiguous
    return view


def to_array(view: Any, dtype: str) -> Any:
    """Return the array with its own dtype."""
    if dtype not in BITS:
        return view
    try:
        import ml_dtypes
    except ImportError:
        raise ImportError("arrays of " + dtype + " need the package ml_dtypes in this environment") from None
    return view.view(getattr(ml_dtypes, dtype))


def to_tensor(view: Any, dtype: str) -> Any:
    """Return a tensor that shares the memory of an array."""
    import torch

    tensor = torch.from_numpy(view)
    return tensor.view(getattr(torch, dtype)) if dtype in BITS else tensor


def filled(value: Any, given: list[Any]) -> Any:
    """Return an argument with the arrays in place of their numbers."""
    if isinstance(value, dict) and set(value) == {"array"}:
        return given[value["array"]]
    if isinstance(value, dict) and set(value) == {"tuple"}:
        return tuple(value["tuple"])
    if isinstance(value, dict):
        return {name: filled(item, given) for name, item in value["mapping"].items()}
    return value


def described(value: Any, blobs: list[bytes]) -> dict[str, Any]:
    """Return a result as JSON; the bytes of its arrays are appended to ``blobs``."""
    torch, numpy = sys.modules.get("torch"), sys.modules["numpy"]
    if torch is not None and isinstance(value, torch.Tensor):
        plain = value.detach().cpu().resolve_conj().resolve_neg()
        plain = plain if plain.layout is torch.strided else plain.to_dense()
        name = str(plain.dtype).replace("torch.", "")
        if name in BITS:
            plain = plain.contiguous().view(torch.int16 if name == "bfloat16" else torch.uint8)
        return array_record(plain.numpy(), name, blobs)
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        if value.dtype.kind in "OSUM" or value.dtype.names is not None:
            return {"other": type(value).__name__}
        return array_record(numpy.asarray(value), value.dtype.name, blobs)
    if isinstance(value, dict):
        return {"mapping": {str(key): described(item, blobs) for key, item in value.items()}}
    if isinstance(value, tuple):
        return {"tuple": [described(item, blobs) for item in value]}
    if value is None or isinstance(value, (bool, int, float)):
        return {"value": value}
    if isinstance(value, list):
        kinds = (numpy.ndarray,) if torch is None else (numpy.ndarray, torch.Tensor)
        if value and all(isinstance(item, kinds) for item in value):
            return {"list": [described(item, blobs) for item in value]}
        try:
            return array_record(numpy.asarray(value), numpy.asarray(value).dtype.name, blobs)
        except Exception:
            return {"other": "list"}
    return {"other": type(value).__name__}


def array_record(array: Any, name: str, blobs: list[bytes]) -> dict[str, Any]:
    """Return an array as JSON, after its bytes."""
    blobs.append(array.tobytes())
    return {"dtype": name, "shape": list(array.shape)}


def parameters(function: Any) -> list[list[Any]] | None:
    """Return the names and kinds of the parameters; None for a function that has no signature."""
    try:
        found = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[one.name, int(one.kind), one.default is not one.empty] for one in found]


def failure(error: BaseException) -> dict[str, Any]:
    """Return an exception as JSON, with the files and lines that it passed."""
    text = str(error).strip()
    kind = type(error).__name__
    frames = [[frame.filename, frame.lineno] for frame in traceback.extract_tb(error.__traceback__)]
    if isinstance(error, SyntaxError) and error.filename:
        text, frames = error.msg, [*frames, [error.filename, error.lineno]]
    missing = error.name if isinstance(error, ModuleNotFoundError) else None
    return {"error": kind + ": " + text if text else kind, "frames": frames, "missing": missing}


def receive(stream: BinaryIO) -> tuple[dict[str, Any], list[bytes]] | None:
    """Return the next message, JSON and the bytes of its arrays; None at the end."""
    head = stream.read(8)
    if len(head) < 8:
        return None
    message = json.loads(stream.read(struct.unpack("<Q", head)[0]))
    return message, [stream.read(size) for size in message.get("sizes", ())]


def send(stream: BinaryIO, message: dict[str, Any], blobs: list[bytes]) -> None:
    """Write a message."""
    text = json.dumps(dict(message, sizes=[len(blob) for blob in blobs])).encode()
    stream.write(struct.pack("<Q", len(text)) + text)
    for blob in blobs:
        stream.write(blob)
    stream.flush()


if __name__ == "__main__":
    main()
