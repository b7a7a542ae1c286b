"""Locals that are computed with before anything was assigned to them, such as ``float sum;`` and ``sum += x[i];``.

The optimiser folds an undefined value to any value, so that nothing of it is left at run time, and NVRTC's warning
(#549) does not follow loops. Unoptimised PTX still has the local as a register. A use is reported only if

* every assignment to the register, also through copies, comes after the use: the use dominates it, so that whenever
  the use is executed for the first time, the register is undefined;
* the instruction computes: an undefined value may be copied, shuffled, selected or stored and never matter, as in
  ``int b; if (lane == 0) b = atomicAdd(n, 32); b = shfl(b, 0);``;
* the source line names a local that is declared without a value and first mentioned in an expression.

Without such a local in the text, the kernel is not compiled again.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.compile.model import CompileResult
from gpuemu_lsp.engine.compile.toolchain import ToolchainError
from gpuemu_lsp.engine.findings import Finding, Place, Range, Severity
from gpuemu_lsp.engine.plan.context import lines_of
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.model import Function, Instruction, Label, Register
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile
from gpuemu_lsp.engine.source.preprocessor.lexer import source_text

_DECLARATION = re.compile(r"(?<=[;{})])\s*(?P<type>(?:[A-Za-z_][\w:]*\s+)+?)(?P<names>\w+(?:\s*,\s*\w+)*)\s*;")
_NOT_TYPES = frozenset({
    "return", "goto", "else", "delete", "throw", "case", "extern", "typedef", "using", "struct", "class", "enum",
    "static", "const", "constexpr", "new", "__shared__",
})  # fmt: skip
_COMPUTES = frozenset({
    "add", "sub", "mul", "mad", "fma", "div", "rem", "min", "max", "neg", "abs", "sqrt", "rsqrt", "rcp", "ex2", "lg2",
    "sin", "cos", "tanh", "setp",
})  # fmt: skip
_ENDS = frozenset({"bra", "ret", "exit", "trap"})


def uninitialised_locals(
    source: SourceFile, kernel: KernelDecl, reported: Sequence[Finding], unoptimized: Callable[[], CompileResult]
) -> Iterator[Finding]:
    """Yield a warning for each local of a kernel that is used uninitialised.

    ``reported`` are the compiler's own findings, whose lines are left out. ``unoptimized`` compiles the kernel without
    optimisation; it is called only if the text has a local to look at.
    """
    lines = lines_of(source_text(source.text).code)
    names = _unassigned(lines, kernel.range)
    if not names:
        return
    try:
        artifact = unoptimized().artifact
    except ToolchainError:
        return
    if artifact is None:
        return
    module = parse(artifact.ptx)
    known = {(one.place.path, one.place.range.start.line) for one in reported}
    found: set[str] = set()
    for function in module.functions.values():
        for use in _undefined_uses(function):
            line = use.location.line - 1 if use.location is not None else -1
            path = module.files.get(use.location.file) if use.location is not None else None
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


@dataclass(frozen=True, slots=True)
class _Point:
    """A place in the code: the number of a basic block, and of an instruction in it."""

    block: int
    index: int


def _undefined_uses(function: Function) -> Iterator[Instruction]:
    """Yield the instructions that compute with a register to which nothing was assigned when they first execute."""
    from gpuemu_lsp.engine.emulator.analysis.dominators import dominates, dominators
    from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written

    blocks, edges = _blocks(function)
    if not blocks:
        return
    dominator = dominators(edges)
    definitions: dict[str, list[tuple[_Point, Instruction]]] = {}
    for number, block in enumerate(blocks):
        for index, item in enumerate(block):
            for name in registers_written(item):
                definitions.setdefault(name, []).append((_Point(number, index), item))

    def before(first: _Point, second: _Point) -> bool:
        if first.block == second.block:
            return first.index < second.index
        return dominates(dominator, first.block, second.block)

    def undefined(name: str, use: _Point, seen: frozenset[str]) -> bool:
        for point, item in definitions.get(name, ()):
            if before(use, point):
                continue
            copied = item.operands[1] if item.opcode == "mov" and len(item.operands) == 2 else None
            # Registers that the function does not declare are special ones, such as %tid.x.
            if not isinstance(copied, Register) or copied.name not in function.registers or item.guard is not None:
                return False
            if copied.name not in seen and not undefined(copied.name, use, seen | {copied.name}):
                return False
        return True

    for number, block in enumerate(blocks):
        for index, item in enumerate(block):
            if item.opcode not in _COMPUTES or item.guard is not None or dominator[number] == -1:
                continue
            point = _Point(number, index)
            read = (name for name in registers_read(item) if name in function.registers)
            if any(undefined(name, point, frozenset({name})) for name in read):
                yield item


def _blocks(function: Function) -> tuple[list[list[Instruction]], list[list[int]]]:
    """Return the basic blocks and their successors; nothing for a function with indirect branches."""
    blocks: list[list[Instruction]] = [[]]
    labels: dict[str, int] = {}
    for item in function.body or ():
        if isinstance(item, Label):
            if blocks[-1]:
                blocks.append([])
            labels[item.name] = len(blocks) - 1
            continue
        if item.opcode == "brx":
            return [], []
        blocks[-1].append(item)
        if item.opcode in _ENDS:
            blocks.append([])
    edges: list[list[int]] = []
    for number, block in enumerate(blocks):
        last = block[-1] if block else None
        targets = [number + 1] if number + 1 < len(blocks) else []
        if last is not None and last.opcode in _ENDS:
            targets = targets if last.guard is not None else []
            if last.opcode == "bra":
                targets += [
                    labels[name] for name in (getattr(one, "name", "") for one in last.operands) if name in labels
                ]
        edges.append(targets)
    return blocks, edges
