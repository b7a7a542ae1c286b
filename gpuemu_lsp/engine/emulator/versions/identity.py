"""What a translation unit is, as text: equal for units that are translated to the same code, wherever they come from.

Every field of a unit counts unless it is named here as following from others, so that a new one is never forgotten.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import fields

from gpuemu_lsp.engine.emulator.analysis.divergence import DivergenceInfo
from gpuemu_lsp.engine.emulator.codegen.core.translation_unit import TranslationUnit
from gpuemu_lsp.engine.emulator.ir.program import BasicBlock, Program
from gpuemu_lsp.engine.ptx.model import Instruction

_FOLLOWING = frozenset({"graph", "liveness"})
"""Fields of a unit that follow from its program."""


def assumptions(unit: TranslationUnit) -> Iterator[str]:
    """Give texts for all of a unit but its program."""
    for one in fields(TranslationUnit):
        if one.name not in _FOLLOWING and one.name != "program":
            yield f"{one.name}={_text(getattr(unit, one.name))}"


def _text(value: object) -> str:
    """Return a value as text that does not depend on the order of sets."""
    if isinstance(value, DivergenceInfo):
        return " ".join(f"{one.name}={_text(getattr(value, one.name))}" for one in fields(value))
    if isinstance(value, Mapping):
        return repr(sorted((str(name), repr(item)) for name, item in value.items()))
    return repr(sorted(value)) if isinstance(value, Set) else repr(value)


def identity(program: Program) -> Iterator[str]:
    """Give texts that, together, tell a program from every other one that is translated differently.

    Source locations and lines of the PTX text are left out: code does not depend on them, and an edit elsewhere in the
    file moves them.
    """
    for one in fields(Program):
        value = getattr(program, one.name)
        if one.name != "blocks":
            # The order of mappings counts: variables are numbered by it.
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
    return f"{one.opcode} {one.modifiers} {one.operands} {one.guard}"
