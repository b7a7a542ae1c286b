"""Locals that are computed with before anything was assigned to them, such as ``float sum;`` and ``sum += x[i];``.

The optimiser folds an undefined value to any value, so that nothing of it is left at run time, and NVRTC's warning
(#549) does not follow loops. Unoptimised PTX still has the local as a register. A use is reported only if

* the register is undefined whenever the use is executed for the first time, and the use computes with it
  (:func:`~gpuemu_lsp.engine.emulator.analysis.liveness.uses_before_assignment`);
* the source line names a local that is declared without a value and first mentioned in an expression.

Without such a local in the text, the kernel is not compiled again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from gpuemu_lsp.engine.compile.model import CompileResult
from gpuemu_lsp.engine.compile.toolchain import ToolchainError
from gpuemu_lsp.engine.findings import Finding, Place, Range, Severity
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile
from gpuemu_lsp.engine.source.preprocessor.lexer import source_text

_DECLARATION = re.compile(r"(?<=[;{})])\s*(?P<type>(?:[A-Za-z_][\w:]*\s+)+?)(?P<names>\w+(?:\s*,\s*\w+)*)\s*;")
_NOT_TYPES = frozenset({
    "return", "goto", "else", "delete", "throw", "case", "extern", "typedef", "using", "struct", "class", "enum",
    "static", "const", "constexpr", "new", "__shared__",
})  # fmt: skip


def unassigned_locals(
    source: SourceFile, kernel: KernelDecl, reported: Sequence[Finding], unoptimized: Callable[[], CompileResult]
) -> Iterator[Finding]:
    """Yield a warning for each local of a kernel that is used uninitialised.

    ``reported`` are the compiler's own findings, whose lines are left out. ``unoptimized`` compiles the kernel without
    optimisation; it is called only if the text has a local to look at.
    """
    lines = source_text(source.text).code.split("\n")
    names = _unassigned(lines, kernel.range)
    if not names:
        return
    try:
        artifact = unoptimized().artifact
    except ToolchainError:
        return
    if artifact is None:
        return
    # Delayed, as all of the emulator: see `case_runner`.
    from gpuemu_lsp.engine.emulator.analysis.kernel_graph import MalformedKernelError, kernel_graph
    from gpuemu_lsp.engine.emulator.analysis.liveness import uses_before_assignment

    files = parse(artifact.ptx).files
    known = {(one.place.path, one.place.range.start.line) for one in reported}
    found: set[str] = set()
    for entry in dict.fromkeys(artifact.entries.values()):
        try:
            graph = kernel_graph(artifact.ptx, entry)
        except MalformedKernelError:
            continue
        for use in uses_before_assignment(*graph):
            line = use.location.line - 1 if use.location is not None else -1
            path = files.get(use.location.file) if use.location is not None else None
            if path != source.path or not kernel.range.start.line <= line <= kernel.range.end.line:
                continue
            for name, declared in names.items():
                token = re.search(rf"(?<![\w.]){name}\b", lines[line])
                if token is None or name in found or line < declared or (path, line) in known:
                    continue
                found.add(name)
                place = Place(path, Range.of(line, token.start(), line, token.end()))
                message = f"`{name}` is used uninitialized: no value is assigned to it before."
                yield make("memory/uninitialized-read", message, place, kernel=kernel.name, severity=Severity.WARNING)


def _unassigned(lines: Sequence[str], span: Range) -> dict[str, int]:
    """Return the locals that are declared without a value and first mentioned in an expression, with their lines."""
    text = "\n".join(lines[span.start.line : span.end.line + 1])
    found: dict[str, int] = {}
    for match in _DECLARATION.finditer(text):
        if _NOT_TYPES.intersection(match["type"].split()):
            continue
        for name in re.findall(r"\w+", match["names"]):
            mention = re.compile(rf"(?P<before>[&.]|>>)?\s*\b{name}\b\s*(?P<after>=(?!=))?").search(text, match.end())
            if mention is not None and not mention["before"] and not mention["after"]:
                found.setdefault(name, span.start.line + text.count("\n", 0, match.start("names")))
    return found
