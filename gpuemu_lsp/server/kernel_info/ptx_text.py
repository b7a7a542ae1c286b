"""Hover texts and definitions of names in a .ptx that is open."""

from __future__ import annotations

from gpuemu_lsp.engine.findings import Position, Range
from gpuemu_lsp.engine.ptx import PtxError, parse
from gpuemu_lsp.engine.ptx.names import PtxName, PtxNameKind, name_at
from gpuemu_lsp.engine.ptx.opcodes import described

_MOST_LINES = 4
"""Instructions that a hover shows of those that write a register."""


def name_text(text: str, position: Position) -> str | None:
    """Return the hover text of the name at a position, None if there is none."""
    name = _name(text, position)
    if name is None or name.kind is PtxNameKind.FUNCTION:
        return None
    if name.kind is PtxNameKind.INSTRUCTION:
        return _instruction_text(name.text)
    parts = [f"`{name.text}`: {name.kind}{f' `{name.detail}`' if name.detail else ''}"]
    if name.kind is PtxNameKind.REGISTER:
        lines = text.split("\n")
        written = [f"line {span.start.line + 1}: `{_shown(lines[span.start.line])}`" for span in name.definitions]
        more = [f"and {len(written) - _MOST_LINES} more"] if len(written) > _MOST_LINES else []
        parts += ["written in", *(f"- {line}" for line in (*written[:_MOST_LINES], *more))]
    if name.uses:
        numbers = sorted({span.start.line + 1 for span in name.uses})
        shown = ", ".join(map(str, numbers[:_MOST_LINES])) + (", ..." if len(numbers) > _MOST_LINES else "")
        parts.append(f"\nused in line{'' if len(numbers) == 1 else 's'} {shown}")
    return "\n".join(parts)


def definitions(text: str, position: Position) -> tuple[Range, ...]:
    """Return where the name at a position gets its value: none for an instruction or a special register."""
    name = _name(text, position)
    return name.definitions if name is not None else ()


def uses(text: str, position: Position) -> tuple[Range, ...]:
    """Return where the name at a position is read."""
    name = _name(text, position)
    return name.uses if name is not None else ()


def _name(text: str, position: Position) -> PtxName | None:
    try:
        module = parse(text)
    except PtxError:
        return None
    return name_at(module, position.line, position.column)


def _instruction_text(name: str) -> str | None:
    description = described(name)
    if description is None:
        return None
    what, parts = description
    return "\n".join([f"`{name}`: {what}", *(f"- `.{part}`: {meaning}" for part, meaning in parts)])


def _shown(line: str) -> str:
    return " ".join(line.split("//")[0].split())
