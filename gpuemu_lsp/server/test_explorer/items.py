"""The tests of a file as a tree: file > kernel > dtype > stored failing case. Building it runs nothing."""

from __future__ import annotations

import urllib.parse
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.server.checks.requests import kernel_id
from gpuemu_lsp.server.documents.parsed_files import Entry, Reading


@dataclass(frozen=True, slots=True)
class Test:
    """One item; ``line`` is where its kernel's name stands, or its failing store."""

    id: str
    label: str
    kind: str
    parent: str | None
    line: int | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """What an id is about: a file, and of it a kernel, dtype or case."""

    uri: str
    kernel: str | None = None
    dtype: str | None = None
    case: str | None = None


def file_id(uri: str) -> str:
    """Return the id of a file's item."""
    return uri


def kernel_test(uri: str, spec: KernelSpec) -> str:
    """Return the id of a kernel's item."""
    return f"{uri}#{urllib.parse.quote(kernel_id(spec), safe='')}"


def parse_id(identity: str) -> Wanted:
    """Return what an id is about."""
    uri, _, rest = identity.partition("#")
    parts = [urllib.parse.unquote(part) for part in rest.split("/")] if rest else []
    return Wanted(uri, *parts[:3])


def tests_of(uri: str, reading: Reading, failures: Sequence[dict[str, Json]]) -> list[Test]:
    """Return the tests of a file: registered kernels first. A file without kernels has none."""
    entries = [entry for entry in reading.entries if entry.registered or entry.decl is not None]
    if not entries:
        return []
    name = Path(reading.path).name
    found = [Test(file_id(uri), name, "file", None)]
    for entry in sorted(entries, key=lambda item: not item.registered):
        spec = entry.spec
        top = kernel_test(uri, spec)
        line = entry.decl.name_range.start.line if entry.decl is not None else None
        found.append(Test(top, spec.name, "kernel", file_id(uri), line))
        for dtype in _dtypes(entry):
            inner = f"{top}/{dtype}"
            found.append(Test(inner, dtype, "dtype", top, line))
            for item in failures:
                if item["kernel"] == spec.name and item["dtype"] == dtype:
                    at = item["line"] if isinstance(item["line"], int) else line
                    found.append(Test(f"{inner}/{item['id']}", _label(item), "case", inner, at))
    return found


def to_client(test: Test, uri: str) -> dict[str, Any]:
    """Return an item as docs/protocol.md has it."""
    span = None
    if test.line is not None:
        span = {"start": {"line": test.line, "character": 0}, "end": {"line": test.line, "character": 0}}
    return {
        "id": test.id,
        "label": test.label,
        "kind": test.kind,
        "parent": test.parent,
        "uri": uri,
        "range": span,
        "runnable": True,
    }


def _dtypes(entry: Entry) -> tuple[str, ...]:
    """Return the value types a kernel is checked with, as far as its text tells."""
    return entry.spec.dtypes or tuple(dict.fromkeys(plan.dtype for plan in entry.plans))


def _label(item: dict[str, Json]) -> str:
    dims = item["dims"]
    sizes = ", ".join(f"{name}={size}" for name, size in dims.items()) if isinstance(dims, dict) else ""
    return f"{sizes or 'case'} ({item['rule']})"
