"""What a name in a PTX text means: where it is defined, what has been declared of it, and how often it is used."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

from gpuemu_lsp.engine.findings import Range
from gpuemu_lsp.engine.ptx.model import Function, Instruction, Label, Module, Operand, Variable
from gpuemu_lsp.engine.ptx.traversal import flat_operands, instructions_of

_NAME = re.compile(r"[A-Za-z_$%][\w$]*(?:\.[\w:]+)*", re.ASCII)
_WITHOUT_RESULT = frozenset(
    {
        *("st", "stmatrix", "red", "bra", "brx", "bar", "barrier", "membar", "fence", "ret", "exit", "trap"),
        *("prefetch", "prefetchu", "cp", "mbarrier", "nanosleep", "griddepcontrol", "setmaxnreg", "wgmma"),
        *("discard", "applypriority"),
    }
)
"""Opcodes whose first operand is read; of ``cp``, ``mbarrier`` and ``wgmma`` also forms with a result exist."""


class PtxNameKind(StrEnum):
    """What a name is of."""

    INSTRUCTION = "instruction"
    REGISTER = "register"
    SPECIAL = "special register"
    LABEL = "label"
    VARIABLE = "variable"
    PARAMETER = "parameter"
    FUNCTION = "function"


@dataclass(frozen=True, slots=True)
class PtxName:
    """A name at a position of a text.

    ``detail`` is its type or what was declared; for an instruction, ``text`` is the whole opcode. ``definitions`` are
    the ranges that give it its value: of a register, the instructions that write it. ``uses`` are those that read it.
    """

    kind: PtxNameKind
    text: str
    range: Range
    detail: str = ""
    definitions: tuple[Range, ...] = ()
    uses: tuple[Range, ...] = ()


def name_at(module: Module, line: int, column: int) -> PtxName | None:
    """Return the name at a position, None if there is none: in a comment, a number or white space.

    Parameters
    ----------
    module
        The parsed text.
    line, column
        0-based; the column in bytes of a text that is ASCII up to there, as PTX is outside of comments.
    """
    lines = module.text.split("\n")
    text = lines[line].split("//")[0] if 0 <= line < len(lines) else ""
    match = next((one for one in _NAME.finditer(text) if one.start() <= column <= one.end()), None)
    if match is None:
        return None
    functions = [one for one in module.functions.values() if one.text_lines[0] <= line <= one.text_lines[1]]
    function = functions[0] if functions else None
    spot = Range.of(line, match.start(), line, match.end())
    if function is not None:
        for instruction in instructions_of(function):
            if instruction.text_line == line and match[0] == instruction.name:
                return PtxName(PtxNameKind.INSTRUCTION, match[0], spot)
    word = match[0].split(".")[0]
    return _named(module, function, lines, word, match[0], spot)


def _named(
    module: Module, function: Function | None, lines: list[str], word: str, whole: str, spot: Range
) -> PtxName | None:
    if function is not None and word in function.registers:
        written, read = _accesses(function, word)
        return PtxName(
            PtxNameKind.REGISTER,
            word,
            spot,
            f".{function.registers[word]}",
            tuple(_range(lines, one, word) for one in written),
            tuple(_range(lines, one, word) for one in read),
        )
    if function is not None:
        labels = [one for one in function.body or () if isinstance(one, Label) and one.name == word]
        if labels:
            uses = [one for one in instructions_of(function) if word in _names(one.operands)]
            where = tuple(_range(lines, one.text_line, word) for one in labels)
            return PtxName(
                PtxNameKind.LABEL, word, spot, "", where, tuple(_range(lines, one.text_line, word) for one in uses)
            )
        for variable in (*function.params, *function.variables):
            if variable.name == word:
                kind = PtxNameKind.PARAMETER if variable.space == "param" else PtxNameKind.VARIABLE
                return _variable(kind, variable, lines, spot)
    for variable in module.variables:
        if variable.name == word:
            return _variable(PtxNameKind.VARIABLE, variable, lines, spot)
    if word in module.functions:
        called = module.functions[word]
        start = called.text_lines[0]
        keyword = ".entry" if called.is_entry else ".func"
        line = next((index for index in range(start, len(lines)) if word in lines[index]), start)
        return PtxName(PtxNameKind.FUNCTION, word, spot, keyword, (_range(lines, line, word),))
    end = spot.end.column
    is_series = lines[spot.start.line][end : end + 1] == "<"  # %r<6> declares %r0 to %r5
    return PtxName(PtxNameKind.SPECIAL, whole, spot) if whole.startswith("%") and not is_series else None


def _variable(kind: PtxNameKind, variable: Variable, lines: list[str], spot: Range) -> PtxName:
    size = f"{variable.size} bytes" if variable.size else "dynamic"
    pattern = re.compile(rf"\.{variable.space}\b.*(?<![\w$]){re.escape(variable.name)}(?![\w$])")
    line = next((index for index, text in enumerate(lines) if pattern.search(text)), None)
    where = () if line is None else (_range(lines, line, variable.name),)
    return PtxName(kind, variable.name, spot, f".{variable.space} .{variable.type}, {size}", where)


def _accesses(function: Function, register: str) -> tuple[list[int], list[int]]:
    """Return the lines of the instructions that write a register, and of those that read it."""
    written, read = [], []
    for instruction in instructions_of(function):
        results, sources = _split(instruction)
        guard = instruction.guard
        if register in _names(results):
            written.append(instruction.text_line)
        if register in _names(sources) or (guard is not None and guard.register.name == register):
            read.append(instruction.text_line)
    return written, read


def _split(instruction: Instruction) -> tuple[tuple[Operand, ...], tuple[Operand, ...]]:
    """Return the operands that an instruction writes, and those that it reads."""
    operands = instruction.operands
    count = 0 if instruction.opcode in _WITHOUT_RESULT else 1
    return operands[:count], operands[count:]


def _names(operands: Iterable[Operand]) -> set[str]:
    return {getattr(one, "name", "") for one in flat_operands(tuple(operands))}


def _range(lines: list[str], line: int, name: str) -> Range:
    match = re.search(rf"(?<![\w$]){re.escape(name)}(?![\w$])", lines[line])
    start, end = match.span() if match is not None else (0, len(lines[line]))
    return Range.of(line, start, line, end)
