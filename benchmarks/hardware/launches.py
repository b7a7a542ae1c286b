"""Recorded launches in a folder: PTX by digest, and for each launch its configuration, arguments and results."""

from __future__ import annotations

import hashlib
import json
import lzma
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.execution import Argument, Buffer, Bytes, Outcome, Request, Scalar, StructArgument

_PTX_SUFFIX = ".ptx.xz"
_TARGET = re.compile(r"(\.target\s+\w+),\s*debug")
_VERSION = re.compile(r"\.version\s+(\d+)\.(\d+)")
_NEWEST_VERSION = (9, 0)
"""Version of PTX that the driver of CUDA 13.0 reads. Compilers write that of their own toolkit."""


@dataclass(frozen=True, slots=True)
class RecordedLaunch:
    """A launch with the emulator's results by buffer name; ``source`` says which test or seed made it."""

    request: Request
    buffers: Mapping[str, Bytes]
    approximate: tuple[str, ...]
    source: str


def store(folder: Path, request: Request, outcome: Outcome, source: str) -> bool:
    """Store a launch, and return whether it is new."""
    arrays: list[Bytes] = []
    described: dict[str, Any] = {
        "entry": request.entry,
        "grid": request.grid,
        "block": request.block,
        "shared_bytes": request.shared_bytes,
        "cluster": request.cluster,
        "arguments": [_described(one, arrays) for one in request.arguments],
    }
    text = request.artifact.ptx.encode()
    described["ptx"] = hashlib.sha256(text).hexdigest()[:24]
    digest = hashlib.sha256(json.dumps(described).encode())
    for array in arrays:
        digest.update(array.tobytes())
    path = folder / f"{digest.hexdigest()[:24]}.npz"
    if path.exists():
        return False
    described["source"] = source
    described["approximate"] = outcome.approximate
    described["results"] = {name: len(arrays) + i for i, name in enumerate(outcome.buffers)}
    arrays += outcome.buffers.values()
    ptx = folder / (described["ptx"] + _PTX_SUFFIX)
    if not ptx.exists():
        ptx.write_bytes(lzma.compress(text))
    np.savez_compressed(
        path,
        launch=np.frombuffer(json.dumps(described).encode(), np.uint8),
        **{f"bytes{i}": array for i, array in enumerate(arrays)},  # type: ignore[arg-type]
    )
    return True


def load(path: Path) -> RecordedLaunch:
    """Read a launch."""
    with np.load(path, allow_pickle=False) as stored:
        described = json.loads(stored["launch"].tobytes())
        arrays = [stored[f"bytes{i}"] for i in range(len(stored.files) - 1)]
    ptx = lzma.decompress((path.parent / (described["ptx"] + _PTX_SUFFIX)).read_bytes()).decode()
    # A driver refuses `debug` where the sections of DWARF are missing.
    ptx = _VERSION.sub(_readable_version, _TARGET.sub(r"\1", ptx), count=1)
    # Without an architecture there is no cubin for any GPU: the driver compiles the PTX.
    artifact = Artifact(str(path), "", ptx, b"", {}, {}, "")
    request = Request(
        artifact,
        described["entry"],
        tuple(described["grid"]),
        tuple(described["block"]),
        described["shared_bytes"],
        tuple(_argument(one, arrays) for one in described["arguments"]),
        cluster=tuple(described["cluster"]) if described["cluster"] else None,
    )
    results = {name: arrays[index] for name, index in described["results"].items()}
    return RecordedLaunch(request, results, tuple(described["approximate"]), described["source"])


def _readable_version(match: re.Match[str]) -> str:
    major, minor = min((int(match[1]), int(match[2])), _NEWEST_VERSION)
    return f".version {major}.{minor}"


def _described(argument: Argument, arrays: list[Bytes]) -> dict[str, Any]:
    if isinstance(argument, Scalar):
        return {"kind": "scalar", "name": argument.name, "data": argument.data.hex()}
    pointers = [[offset, _described(buffer, arrays)] for offset, buffer in argument.pointers]
    if isinstance(argument, StructArgument):
        return {"kind": "struct", "name": argument.name, "data": argument.data.hex(), "pointers": pointers}
    arrays.append(argument.data.copy())
    return {
        "kind": "buffer",
        "name": argument.name,
        "bytes": len(arrays) - 1,
        "element_size": argument.element_size,
        "offset": argument.offset,
        "alias_of": argument.alias_of,
        "pointer_offset": argument.pointer_offset,
        "pointers": pointers,
    }


def _argument(described: Mapping[str, Any], arrays: list[Bytes]) -> Argument:
    name = described["name"]
    if described["kind"] == "scalar":
        return Scalar(name, bytes.fromhex(described["data"]))
    pointers = tuple((offset, _buffer(one, arrays)) for offset, one in described["pointers"])
    if described["kind"] == "struct":
        return StructArgument(name, bytes.fromhex(described["data"]), pointers)
    return _buffer(described, arrays)


def _buffer(described: Mapping[str, Any], arrays: list[Bytes]) -> Buffer:
    return Buffer(
        described["name"],
        arrays[described["bytes"]],
        element_size=described["element_size"],
        offset=described["offset"],
        alias_of=described["alias_of"],
        pointer_offset=described["pointer_offset"],
        pointers=tuple((offset, _buffer(one, arrays)) for offset, one in described["pointers"]),
    )
