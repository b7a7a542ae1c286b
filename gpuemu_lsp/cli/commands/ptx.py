"""``gpuemu ptx``: a PTX file as ptxas sees it, its instruction mix, and the difference of two."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path

from gpuemu_lsp.cli.output import print_out
from gpuemu_lsp.engine.compile.assembler import AssemblerError
from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.lint.ptx_file import PtxFile, inspect_ptx
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.diff import Hunk, diff_entries
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.report.exit_codes import EXIT_CLEAN, EXIT_FINDINGS, EXIT_USAGE


def ptx(files: Sequence[Path], arch: str | None, form: str) -> int:
    """Inspect a PTX file, or compare two; return the exit code.

    It is 1 for errors of ptxas, or for a difference, and 2 if something cannot be read or assembled.
    """
    texts = []
    for path in files:
        try:
            texts.append(path.read_text(encoding="utf-8"))
        except (OSError, UnicodeDecodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else "not UTF-8 text"
            print(f"gpuemu: {path}: {reason}", file=sys.stderr)
            return EXIT_USAGE
    if len(files) == 2:
        return _compare(files, texts, form)
    try:
        inspected = inspect_ptx(texts[0], arch)
    except AssemblerError as error:
        print(f"gpuemu: ptxas: {error}", file=sys.stderr)
        return EXIT_USAGE
    if form == "json":
        print_out(json.dumps(_record(inspected), indent=2) + "\n")
    else:
        print_out("\n".join(_lines(files[0], inspected)) + "\n")
    if inspected.errors:
        return EXIT_FINDINGS
    if not inspected.assembled:
        print("gpuemu: ptxas was not found; pip install nvidia-cuda-nvcc-cu12", file=sys.stderr)
        return EXIT_USAGE
    return EXIT_CLEAN


def _lines(path: Path, inspected: PtxFile) -> Iterator[str]:
    text = inspected.text.split("\n")
    for line, message in inspected.errors:
        yield f"{path}:{line}: error: {message}" if line else f"{path}: error: {message}"
        if 0 < line <= len(text):
            yield f"  {line} | {text[line - 1].strip()}"
    for entry, mix in inspected.mixes.items():
        usage = inspected.resources.get(entry)
        yield f"{entry}: {sum(mix.values())} instructions{_usage(usage)}"
        yield from (f"{count:7} {name}" for name, count in mix.items())


def _usage(usage: ResourceUsage | None) -> str:
    if usage is None:
        return ""
    spilled = usage.spill_stores + usage.spill_loads
    return f", {usage.registers} registers, {spilled} bytes spilled, {usage.static_shared_bytes} bytes of shared memory"


def _record(inspected: PtxFile) -> Json:
    errors: list[Json] = [{"line": line, "message": message} for line, message in inspected.errors]
    kernels: list[Json] = []
    for entry, mix in inspected.mixes.items():
        usage = inspected.resources.get(entry)
        kernels.append(
            {"entry": entry, "resources": None if usage is None else asdict(usage), "instructions": dict(mix)}
        )
    return {"version": 1, "errors": errors, "kernels": kernels}


def _compare(files: Sequence[Path], texts: Sequence[str], form: str) -> int:
    modules = []
    for path, text in zip(files, texts, strict=True):
        try:
            modules.append(parse(text))
        except PtxError as error:
            print(f"gpuemu: {path}:{error.line + 1}: {error.reason}", file=sys.stderr)
            return EXIT_USAGE
    before, after = modules
    pairs, alone = _pairs(before, after)
    hunks = [hunk for old, new in pairs for hunk in diff_entries(before, old, after, new)]
    if form == "json":
        print_out(json.dumps({"version": 1, "only": alone, "hunks": [_hunk(one) for one in hunks]}, indent=2) + "\n")
    else:
        lines = [f"only in {files[side]}: {name}" for name, side in alone.items()]
        lines += [line for hunk in hunks for line in _hunk_lines(hunk)]
        print_out("\n".join(lines) + "\n" if lines else "The kernels do the same.\n")
    return EXIT_FINDINGS if hunks or alone else EXIT_CLEAN


def _pairs(before: Module, after: Module) -> tuple[list[tuple[str, str]], dict[str, int]]:
    """Return the kernels to compare, and those that one side has alone; the only kernel of a file may be renamed."""
    old, new = ([name for name, one in module.functions.items() if one.is_entry] for module in (before, after))
    if len(old) == len(new) == 1:
        return [(old[0], new[0])], {}
    alone = {**dict.fromkeys(set(old) - set(new), 0), **dict.fromkeys(set(new) - set(old), 1)}
    return [(name, name) for name in old if name in new], dict(sorted(alone.items()))


def _hunk_lines(hunk: Hunk) -> Iterator[str]:
    place = next((one for line in (*hunk.after, *hunk.before) for one in line.places), None)
    where = f" {place[0]}:{place[1] + 1}" if place is not None else ""
    yield f"@@ {hunk.function}{where} @@"
    yield from (f"- {line.text}" for line in hunk.before)
    yield from (f"+ {line.text}" for line in hunk.after)


def _hunk(hunk: Hunk) -> Mapping[str, Json]:
    return {
        "function": hunk.function,
        "before": [line.text for line in hunk.before],
        "after": [line.text for line in hunk.after],
    }
