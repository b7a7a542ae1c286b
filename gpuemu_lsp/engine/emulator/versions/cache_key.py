"""A translation unit as text, equal for units that translate to equal code: the key of the code caches.

Every field of a unit is included unless it is named here as derived from others, so that a new field cannot be
forgotten: a missing one would hand the wrong machine code to a kernel.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import fields
from typing import Final

from gpuemu_lsp.engine.emulator.analysis.divergence import DivergenceInfo
from gpuemu_lsp.engine.emulator.codegen.core.translation_unit import TranslationUnit
from gpuemu_lsp.engine.emulator.ir.program import BasicBlock, Program
from gpuemu_lsp.engine.ptx.model import Instruction

_DERIVED: Final = frozenset({"graph", "liveness"})
"""Fields of a unit that are computed from its program."""


def assumption_texts(unit: TranslationUnit) -> Iterator[str]:
    """Yield the texts of all fields of a unit but its program."""
    for one in fields(TranslationUnit):
        if one.name not in _DERIVED and one.name != "program":
            yield f"{one.name}={_text(getattr(unit, one.name))}"


def _text(value: object) -> str:
    """Return a value as text, independent of the iteration order of sets, which differs between processes."""
    if isinstance(value, DivergenceInfo):
        return " ".join(f"{one.name}={_text(getattr(value, one.name))}" for one in fields(value))
    if isinstance(value, Mapping):
        return repr(sorted((str(name), repr(item)) for name, item in value.items()))
    return repr(sorted(value)) if isinstance(value, Set) else repr(value)


def program_texts(program: Program) -> Iterator[str]:
    """Yield texts that together distinguish a program from every program that translates to different code.

    Source locations, lines of the PTX text and the calls that instructions belong to are omitted: code does not depend
    on them, and an edit elsewhere in the file would otherwise invalidate it.
    """
    for one in fields(Program):
        value = getattr(program, one.name)
        if one.name not in ("blocks", "calls"):
            # In order: variables are numbered by their place in the mapping.
            yield f"{one.name}={list(value.items()) if hasattr(value, 'items') else value!r}"
    for block in program.blocks:
        yield from _block(block)


def _block(block: BasicBlock) -> Iterator[str]:
    for instruction in block.code:
        yield _instruction(instruction)
    end = block.terminator
    texts = [type(end).__name__]
    for one in fields(end):
        value = getattr(end, one.name)
        texts.append(_instruction(value) if isinstance(value, Instruction) else repr(value))
    yield " ".join(texts)


def _instruction(one: Instruction) -> str:
    return f"{one.opcode} {one.modifiers} {one.operands} {one.guard} {one.used_bytes}"
