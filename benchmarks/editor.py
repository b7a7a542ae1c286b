"""Latency in an editor: save to first diagnostic and to verdict, keystroke to compile error, start to ready.

    python -m benchmarks.editor [--kernels N] [--json FILE] [--output docs/measurements/performance.md]
    python -m benchmarks.editor --large [LINES] [--repeat N]

A server process is driven over stdio like an editor does, one kernel of ``kernels/`` at a time. Times are multiples of
NVRTC's compile time for the same kernel in the same run, which makes them comparable between machines. The server's
compilation cache is empty. ``--large`` measures generated files of up to 20,000 lines instead
(:mod:`benchmarks.large_files`). Needs the ``dev`` extra.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

from lsprotocol import types

from benchmarks import large_files
from benchmarks.editor_client import Editor
from benchmarks.page import put
from gpuemu_lsp.engine.project.model import KernelSpec
from tests.support.corpus import corpus_kernels

ROOT = Path(__file__).parents[1]
_STARTS = 5
"""Starts of the server of which the median is given."""
_MEASURES = (
    ("save to first diagnostic", "first", 0.0, "5 x, p95 15 x"),
    ("save to full quick verdict", "verdict", 0.0, "5 x, p95 15 x"),
    ("last key to compile error, without the debounce time of 250 ms", "key", 0.25, "2 x"),
)
"""Measurements: title, key in a kernel's figures, intended delay in seconds, target."""


async def start_seconds() -> float:
    """Start a server and end it; return the seconds until its workers were ready."""
    editor = Editor()
    seconds = await editor.start(ROOT / "kernels")
    await editor.client.shutdown_session()
    await editor.client.stop()
    return seconds


async def measure(editor: Editor, spec: KernelSpec) -> dict[str, float] | None:
    """Measure one kernel; return None if it does not compile on its own."""
    path = Path(spec.source)
    text = path.read_text(encoding="utf-8")
    uri = path.as_uri()
    editor.open(path, text)
    await editor.idle()
    # An additional variable changes the PTX: a comment would not, and the last verdict would be reused.
    since = time.perf_counter()
    editor.type(path, text + f"\n__device__ int salt_{time.time_ns()};\n")
    editor.save(path)
    first = await editor.first(since, lambda params: params.uri == uri)
    verdict = time.perf_counter() - since
    since = time.perf_counter()
    editor.type(path, text + "\n__device__ int q = nowhere;\n")
    key = await editor.first(since, lambda params: any(item.code == "compile/error" for item in params.diagnostics))
    editor.client.text_document_did_close(types.DidCloseTextDocumentParams(types.TextDocumentIdentifier(uri)))
    await editor.idle()
    compiled = compile_seconds(spec, text)
    if compiled is None:
        return None
    figures = {"nvrtc": compiled, "verdict": verdict}
    if first is not None:
        figures["first"] = first
    if key is not None:
        figures["key"] = key
    return figures


def compile_seconds(spec: KernelSpec, text: str) -> float | None:
    """Return NVRTC's compile time of a kernel without caches: the median of three warm runs."""
    from gpuemu_lsp.engine.check.prepare import prepare
    from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

    times = []
    for number in range(4):
        other = text + f"\n// {time.perf_counter()} {number}\n"
        prepared = prepare(CheckRequest(spec, CheckOptions(arch=spec.arch[0]), text=other))
        if prepared.artifact is None:
            return None
        times.append(prepared.compile_ms / 1e3)
    return statistics.median(times[1:])


def memory_mb(pid: int) -> dict[str, float]:
    """Return the proportional set size of the server and of its descendants, in MB."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
            except OSError:
                continue
    below = {pid}
    while more := {child for child, parent in parents.items() if parent in below} - below:
        below |= more
    return {"server": _pss(pid), "workers": sum(_pss(other) for other in below - {pid}), "processes": len(below)}


def _pss(pid: int) -> float:
    try:
        lines = (Path("/proc") / str(pid) / "smaps_rollup").read_text().splitlines()
    except OSError:
        return 0.0
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:")) / 1024


def quantiles(values: list[float]) -> dict[str, float]:
    """Return p50 and p95."""
    ordered = sorted(values)
    return {"p50": statistics.median(ordered), "p95": ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]}


async def run(limit: int | None) -> dict[str, Any]:
    """Measure the kernels of the corpus with one server."""
    specs = corpus_kernels()
    step = max(1, len(specs) // limit) if limit else 1
    chosen = specs[::step][: limit or len(specs)]
    ready = statistics.median([await start_seconds() for _ in range(_STARTS)])
    editor = Editor()
    await editor.start(ROOT / "kernels")
    at_start = memory_mb(editor.pid)
    figures = []
    for spec in chosen:
        found = await measure(editor, spec)
        if found is not None:
            figures.append({"kernel": spec.name, **found})
            print(
                f"{spec.name:28}", *(f"{name} {1e3 * value:7.0f} ms" for name, value in found.items()), file=sys.stderr
            )
    at_end = memory_mb(editor.pid)
    await editor.client.shutdown_session()
    await editor.client.stop()
    return {"ready_seconds": ready, "memory_start": at_start, "memory_end": at_end, "kernels": figures}


async def run_large(repeat: int, lines: int) -> dict[str, dict[str, float]]:
    """Measure large files, each in a server of its own; medians of several runs."""
    measured = {
        size.title: partial(large_files.measure, size=size) for size in large_files.SIZES if size.lines <= lines
    }
    rows: dict[str, Callable[[Editor, Path], Awaitable[dict[str, float]]]] = {
        **measured,
        large_files.ENTRIES: large_files.measure_entries,
    }
    figures: dict[str, list[dict[str, float]]] = {title: [] for title in rows}
    for _ in range(repeat):
        for title, measure in rows.items():
            with tempfile.TemporaryDirectory() as folder:
                editor = Editor()
                await editor.start(Path(folder))
                found = await measure(editor, Path(folder))
                figures[title].append(found)
                print(title, {name: f"{1e3 * value:.0f} ms" for name, value in found.items()}, file=sys.stderr)
                await editor.client.shutdown_session()
                await editor.client.stop()
    return {title: large_files.median(runs) for title, runs in figures.items()}


def part(result: dict[str, Any]) -> str:
    """Return the figures as a section of docs/measurements/performance.md."""
    rows = result["kernels"]
    nvrtc = 1e3 * statistics.median(row["nvrtc"] for row in rows)
    lines = [
        "## In the editor",
        "",
        f"`python -m benchmarks.editor`, {len(rows)} kernels of `kernels/`, {os.cpu_count()} cores. Multiples of "
        f"NVRTC's compile time of the same kernel in the same run (median {nvrtc:.0f} ms); caches are empty.",
        "",
        "| | kernels | p50 | p95 | target |",
        "|---|---|---|---|---|",
    ]
    for title, name, idle, aim in _MEASURES:
        ratios = [(row[name] - idle) / row["nvrtc"] for row in rows if name in row]
        if ratios:
            found = quantiles(ratios)
            lines.append(f"| {title} | {len(ratios)} | {found['p50']:.1f} x | {found['p95']:.1f} x | {aim} |")
    start, end = result["memory_start"], result["memory_end"]
    lines += [
        "",
        f"Start to ready {result['ready_seconds']:.1f} s. Memory (proportional): server {start['server']:.0f} MB and "
        f"its {start['processes'] - 1} other processes {start['workers']:.0f} MB at the start; "
        f"{end['server']:.0f} MB and {end['workers']:.0f} MB ({end['processes'] - 1}) at the end.",
    ]
    return "\n".join(lines) + "\n"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kernels", type=int, metavar="N", help="only N kernels, spread over the corpus")
    parser.add_argument(
        "--large",
        type=int,
        nargs="?",
        const=1 << 30,
        metavar="LINES",
        help="measure large files, of at most LINES lines",
    )
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="with --large: median of N runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all figures to FILE")
    parser.add_argument("--output", type=Path, metavar="FILE", help="update the section of performance.md in FILE")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as cache:
        os.environ["GPUEMU_CACHE_DIR"] = cache
        # An installed package has its bytecode; a checkout may be set to write none.
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
        os.environ["PYTHONPYCACHEPREFIX"] = f"{cache}/bytecode"
        asyncio.run(start_seconds())
        result = asyncio.run(run_large(options.repeat, options.large) if options.large else run(options.kernels))
    if options.json is not None:
        options.json.write_text(json.dumps(result, indent=2), encoding="utf-8")
    if options.large:
        put(options.output, "editor-large", large_files.part(result))
    else:
        put(options.output, "editor", part(result))


if __name__ == "__main__":
    main()
