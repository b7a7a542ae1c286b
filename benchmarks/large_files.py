"""Latency in large files, in multiples of a small file's in the same run.

Three generated files (20,000 lines with 83 kernels, 1,500 with 41 and with 125) and one of 70 lines with one kernel,
all without gpuemu.toml. The first kernel of each reads out of bounds, so that its verdict is a diagnostic. And a
project whose gpuemu.toml has 2,000 entries for 20 files. Part of :mod:`benchmarks.editor`.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types

from benchmarks.editor_client import Editor
from benchmarks.large_source import large_source

TIMEOUT = 600.0
_KEYS = 20
_MEASURES = (
    ("key to hover, p95", "key", "100 ms"),
    ("open to first verdict", "verdict", "3 s"),
    ("open to idle", "idle", ""),
    ("newline to idle", "newline", ""),
    ("comment and save to idle", "comment", "1 s"),
    ("typed bug, save to its finding", "bug", "3 x"),
    ("hover during the checks, p95", "during", "50 ms"),
)
"""Measurements: title, key in a file's figures, target."""


@dataclass(frozen=True, slots=True)
class Size:
    """Size of a generated file."""

    kernels: int
    lines: int

    @property
    def title(self) -> str:
        """Heading of the file's column."""
        return f"{self.lines:,} lines, {self.kernels} kernel{'s' if self.kernels > 1 else ''}"


SIZES = (Size(1, 70), Size(41, 1500), Size(125, 1500), Size(83, 20000))
_FILES, _KERNELS_PER_FILE = 20, 100
ENTRIES = "2,000 entries"


class OpenFile:
    """A file in the editor whose edits are sent as changed ranges."""

    def __init__(self, editor: Editor, path: Path, text: str) -> None:
        self._editor, self._path = editor, path
        self.lines = text.split("\n")
        path.write_text(text, encoding="utf-8")

    def open(self) -> None:
        """Open the file."""
        self._editor.open(self._path, "\n".join(self.lines))

    def insert(self, line: int, column: int, text: str) -> None:
        """Insert text."""
        uri = self._path.as_uri()
        self._editor.versions[uri] += 1
        place = types.Position(line, column)
        change = types.TextDocumentContentChangePartial(types.Range(place, place), text)
        document = types.VersionedTextDocumentIdentifier(self._editor.versions[uri], uri)
        self._editor.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        whole = self.lines[line][:column] + text + self.lines[line][column:]
        self.lines[line : line + 1] = whole.split("\n")

    def replace(self, line: int, old: str, new: str) -> None:
        """Replace the first occurrence of a text in a line by a longer one, or remove the end of it."""
        column = self.lines[line].index(old)
        if new.startswith(old):
            self.insert(line, column + len(old), new.removeprefix(old))
            return
        uri = self._path.as_uri()
        self._editor.versions[uri] += 1
        span = types.Range(types.Position(line, column), types.Position(line, column + len(old)))
        change = types.TextDocumentContentChangePartial(span, new)
        document = types.VersionedTextDocumentIdentifier(self._editor.versions[uri], uri)
        self._editor.client.text_document_did_change(types.DidChangeTextDocumentParams(document, [change]))
        self.lines[line] = self.lines[line].replace(old, new, 1)

    @property
    def uri(self) -> str:
        """The URI of the file."""
        return self._path.as_uri()

    def save(self) -> None:
        """Write the file and notify the server."""
        self._path.write_text("\n".join(self.lines), encoding="utf-8")
        self._editor.save(self._path)

    def close(self) -> None:
        """Close the file."""
        identifier = types.TextDocumentIdentifier(self._path.as_uri())
        self._editor.client.text_document_did_close(types.DidCloseTextDocumentParams(identifier))

    async def hover(self, line: int) -> float:
        """Return the seconds of a hover over a kernel's name."""
        identifier = types.TextDocumentIdentifier(self._path.as_uri())
        place = types.Position(line, self.lines[line].index("(") - 1)
        since = time.perf_counter()
        found = await self._editor.client.text_document_hover_async(types.HoverParams(identifier, place))
        assert found is not None, f"no hover at line {line + 1}"
        return time.perf_counter() - since

    def kernels(self) -> list[int]:
        """Return the lines with the kernels' names."""
        return [number for number, line in enumerate(self.lines) if line.startswith("__global__ void")]


async def measure(editor: Editor, folder: Path, size: Size) -> dict[str, float]:
    """Measure one file, opened for the first time."""
    path = folder / f"generated_{size.kernels}.cu"
    uri = path.as_uri()
    file = OpenFile(editor, path, large_source(size.kernels, size.lines))
    since = time.perf_counter()
    file.open()
    idle = asyncio.ensure_future(_idle(editor))
    verdict = None
    during = []
    while not idle.done():
        if verdict is None:
            verdict = next(
                (
                    moment - since
                    for moment, params in editor.published
                    if moment > since and params.uri == uri and any(map(_is_verdict, params.diagnostics))
                ),
                None,
            )
        during.append(await file.hover(file.kernels()[-1]))
        await asyncio.sleep(0.02)
    figures = {"idle": time.perf_counter() - since, "during": _p95(during)}
    figures["verdict"] = verdict if verdict is not None else figures["idle"]
    figures["key"] = _p95([await _key(file, number) for number in range(_KEYS)])
    await _idle(editor)
    middle = file.kernels()[len(file.kernels()) // 2]
    figures["newline"] = await _settled(editor, lambda: file.insert(middle + 2, 0, "\n"))

    def comment() -> None:
        file.insert(middle + 1, len(file.lines[middle + 1]), "  // one thread per element")
        file.save()

    file.save()
    await _idle(editor)
    figures["comment"] = await _settled(editor, comment)
    figures["bug"] = await _bug(editor, file)
    file.close()
    await _idle(editor)
    return figures


async def _key(file: OpenFile, number: int) -> float:
    """Type one character in the body of a kernel and hover over its name."""
    kernels = file.kernels()
    line = kernels[number * 7 % len(kernels)]
    file.insert(line + 1, len(file.lines[line + 1]), " " if number % 2 else ";")
    seconds = await file.hover(line)
    await asyncio.sleep(0.05)
    return seconds


async def measure_entries(editor: Editor, folder: Path) -> dict[str, float]:
    """Measure a file of a project with many entries: hovers while its kernels are checked, and a bug typed into one."""
    (folder / "ref.py").write_text("def reference(inputs):\n    return 2.0 * inputs['x']\n", encoding="utf-8")
    entries = [
        f'[[kernels]]\nname = "map_{file}_{number}"\nsource = "file_{file}.cu"\nreference = "ref.py"\n'
        '[kernels.dims]\nn = { max = 1000 }\n[kernels.args]\nx = { in = ["n"] }\ny = { out = ["n"] }\n'
        '[kernels.launch]\ngrid = "ceil_div(n, 256)"\nblock = 256\n'
        for file in range(_FILES)
        for number in range(_KERNELS_PER_FILE)
    ]
    for number in range(1, _FILES):
        (folder / f"file_{number}.cu").write_text(_source_of_entries(number), encoding="utf-8")
    file = OpenFile(editor, folder / "file_0.cu", _source_of_entries(0))
    (folder / "gpuemu.toml").write_text("\n".join(entries), encoding="utf-8")
    since = time.perf_counter()
    file.open()
    idle = asyncio.ensure_future(_idle(editor))
    during = []
    while not idle.done():
        during.append(await file.hover(file.kernels()[-1]))
        await asyncio.sleep(0.02)
    figures = {"idle": time.perf_counter() - since, "during": _p95(during)}
    figures["key"] = _p95([await _key(file, number) for number in range(_KEYS)])
    await _idle(editor)
    figures["bug"] = await _bug(editor, file)
    file.close()
    await _idle(editor)
    return figures


def _source_of_entries(file: int) -> str:
    return "".join(
        f"__global__ void map_{file}_{number}(const float* x, float* y, int n) {{\n"
        "    int index = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "    if (index < n) y[index] = 2.0f * x[index];\n}\n\n"
        for number in range(_KERNELS_PER_FILE)
    )


async def _bug(editor: Editor, file: OpenFile) -> float:
    """Return the seconds from the save of a comparison with one element too many to the finding in its kernel."""
    guards = [number for number, line in enumerate(file.lines) if line.lstrip().startswith("if (index <")]
    line = guards[len(guards) // 2]
    if "<=" in file.lines[line]:
        file.replace(line, "<= n", "< n")
    file.save()
    await _idle(editor)
    # Another comparison than that with which the small file began: its verdict is known.
    file.replace(line, "< n", "< n + 1")
    since = time.perf_counter()
    file.save()
    idle = asyncio.ensure_future(_idle(editor))
    while not idle.done():
        await asyncio.sleep(0.005)
    await idle
    return next(
        moment - since
        for moment, params in editor.published
        if moment > since and params.uri == file.uri and any(_is_verdict_in(line, item) for item in params.diagnostics)
    )


def _is_verdict_in(line: int, item: types.Diagnostic) -> bool:
    return _is_verdict(item) and item.range.start.line == line


async def _settled(editor: Editor, edit: Any) -> float:
    """Return the seconds from an edit until the server is idle."""
    since = time.perf_counter()
    edit()
    await _idle(editor)
    return time.perf_counter() - since


async def _idle(editor: Editor) -> None:
    await asyncio.wait_for(editor.client.protocol.send_request_async("gpuemu/waitForIdle", {}), TIMEOUT)


def _is_verdict(item: types.Diagnostic) -> bool:
    return str(item.code).startswith(("memory/", "sync/", "numeric/"))


def _p95(values: list[float]) -> float:
    ordered = sorted(values)
    return ordered[round(0.95 * (len(ordered) - 1))] if ordered else 0.0


def part(figures: dict[str, dict[str, float]]) -> str:
    """Return the figures of the files, the small one first, as a section of a page."""
    small, *others = figures
    lines = [
        "## Large files",
        "",
        "`python -m benchmarks.editor --large`: generated files without gpuemu.toml, edits sent as ranges,",
        "one server, caches empty. Multiples are of the small file in the same run.",
        "",
        f"| | {small} | {' | '.join(f'{other} | multiple' for other in others)} | aim |",
        f"|---|---|{'---|---|' * len(others)}---|",
    ]
    for title, name, aim in _MEASURES:
        base = figures[small][name]
        found = [figures[other].get(name) for other in others]
        cells = ["- | -" if value is None else f"{_time(value)} | {value / base:.1f} x" for value in found]
        lines.append(f"| {title} | {_time(base)} | {' | '.join(cells)} | {aim} |")
    return "\n".join(lines) + "\n"


def _time(seconds: float) -> str:
    return f"{1e3 * seconds:.0f} ms" if seconds < 1 else f"{seconds:.1f} s"


def median(runs: list[dict[str, float]]) -> dict[str, float]:
    """Return the median of each figure of several runs."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}
