"""Test items of a file as a tree: file, kernel, dtype, stored failing case. Building it runs nothing."""

from __future__ import annotations

import urllib.parse
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.source.python.model_pair import answer_name
from gpuemu_lsp.server.documents.parsed_files import ParsedFile

ANSWER = "class ModelNew"
"""The part of an id that stands for the answer of a file, as no kernel has such a name."""
_ID_DIGITS = 6
"""Digits of a case's id that distinguish cases of the same sizes."""


@dataclass(frozen=True, slots=True)
class TestItem:
    """One item; ``line`` is that of its kernel's name, or of the store that fails.

    ``message`` is that of a stored failing case, which has failed the last time it was run; None for other items.
    """

    __test__ = False  # not a test class to pytest

    id: str
    label: str
    kind: str
    parent: str | None
    line: int | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class TestId:
    """The parts of an id: a file, and a kernel, dtype or case of it."""

    __test__ = False

    uri: str
    kernel: str | None = None
    dtype: str | None = None
    case: str | None = None


def file_id(uri: str) -> str:
    """Return the id of a file's item."""
    return uri


def kernel_item_id(uri: str, kernel: str) -> str:
    """Return the id of a kernel's item."""
    return f"{uri}#{urllib.parse.quote(kernel, safe='')}"


def parse_id(identity: str) -> TestId:
    """Return the parts of an id."""
    uri, _, rest = identity.partition("#")
    parts = [urllib.parse.unquote(part) for part in rest.split("/")] if rest else []
    return TestId(uri, *parts[:3])


def items_of(
    uri: str,
    parsed: ParsedFile,
    failures: Sequence[dict[str, Json]],
    dtypes: Mapping[str, tuple[str, ...]],
    label: str | None = None,
) -> list[TestItem]:
    """Return the items of a file: its answer to a benchmark, and kernels, registered ones first; none without both.

    ``dtypes`` are those of kernels whose launches decide them, by identity. ``label`` is that of the file, by default
    its name.
    """
    entries = [entry for entry in parsed.entries if entry.registered or entry.decl is not None]
    answer = answer_name(parsed.text) if parsed.path.endswith(".py") else None
    if not entries and answer is None:
        return []
    items = [TestItem(file_id(uri), label or Path(parsed.path).name, "file", None)]
    if answer is not None:
        items.append(TestItem(kernel_item_id(uri, ANSWER), "ModelNew", "answer", file_id(uri), answer.start.line))
    for entry in sorted(entries, key=lambda item: not item.registered):
        spec = entry.spec
        kernel = kernel_item_id(uri, entry.id)
        line = entry.decl.name_range.start.line if entry.decl is not None else None
        items.append(TestItem(kernel, parsed.name_of(entry), "kernel", file_id(uri), line))
        for dtype in spec.dtypes or dtypes.get(entry.id, ()):
            inner = f"{kernel}/{dtype}"
            items.append(TestItem(inner, dtype, "dtype", kernel, line))
            stored = [item for item in failures if (item["kernel"], item["dtype"]) == (spec.name, dtype)]
            items += _cases(inner, line, stored)
    return items


def item_to_client(item: TestItem, uri: str) -> dict[str, Any]:
    """Return an item as ``Test`` of docs/protocol.md."""
    span = None
    if item.line is not None:
        span = {"start": {"line": item.line, "character": 0}, "end": {"line": item.line, "character": 0}}
    return {
        "id": item.id,
        "label": item.label,
        "kind": item.kind,
        "parent": item.parent,
        "uri": uri,
        "range": span,
        "runnable": True,
        "state": "failed" if item.message is not None else None,
        "message": item.message,
    }


def _cases(parent: str, line: int | None, failures: Sequence[dict[str, Json]]) -> Iterator[TestItem]:
    """Yield an item for each failing case; a case that has failed by several rules is one item."""
    cases = {failure["id"]: failure for failure in reversed(failures)}  # the latest failure of a case is the first
    labels = Counter(map(_label, cases.values()))
    for case, failure in reversed(cases.items()):
        label = _label(failure)
        if labels[label] > 1:
            label += f", case {str(case)[-_ID_DIGITS:]}"
        at = failure["line"] if isinstance(failure["line"], int) else line
        yield TestItem(f"{parent}/{case}", label, "case", parent, at, str(failure["message"]))


def _label(failure: dict[str, Json]) -> str:
    dims = failure["dims"]
    sizes = ", ".join(f"{name} = {size}" for name, size in dims.items()) if isinstance(dims, dict) else ""
    return f"{sizes or 'case'} ({failure['rule']})"
