"""Structural diff of two versions of a PTX function, per instruction and by source line.

Instructions are aligned by shape: opcode, types, constants and symbols, with registers and labels anonymous, so that
renumbering is not a change. Then a bijection between the registers of both versions is built from aligned instructions
in order; an instruction that contradicts it reads another value than before and counts as changed too.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from gpuemu_lsp.engine.ptx.model import Function, Instruction, Label, Location, Module, Register, Symbol, Variable
from gpuemu_lsp.engine.ptx.normal_form import CanonicalNames, strings_of
from gpuemu_lsp.engine.ptx.traversal import flat_operands, reachable

_EXHAUSTIVE = 2000
"""Number of items up to which difflib's ``autojunk`` heuristic is off; it ignores frequent items as anchors."""


@dataclass(frozen=True, slots=True)
class CodeLine:
    """An instruction, label or declaration in normal form, and its source lines, innermost first.

    ``places`` are (path, 0-based line); inlined code has the lines of its callers too.
    """

    text: str
    places: tuple[tuple[str, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Hunk:
    """A replaced run of code in ``function``; either side may be empty."""

    function: str
    before: tuple[CodeLine, ...]
    after: tuple[CodeLine, ...]

    def lines(self, path: str) -> frozenset[int]:
        """Return the 0-based lines of the new version of ``path``."""
        return _lines(self.after, path)

    def old_lines(self, path: str) -> frozenset[int]:
        """Return the 0-based lines of the old version of ``path``."""
        return _lines(self.before, path)


def diff_entries(before: Module, entry: str, after: Module, other: str | None = None) -> tuple[Hunk, ...]:
    """Compare a kernel and all functions it may call with those of the kernel ``other``, by default of equal name."""
    old = {function.name: function for function in reachable(before, entry)}
    new = {function.name: function for function in reachable(after, other or entry)}
    if other is not None and other != entry:
        new[entry] = new.pop(other)
    hunks: list[Hunk] = []
    for name in dict.fromkeys((*old, *new)):
        hunks += _functions(_DiffSide(before, old.get(name)), _DiffSide(after, new.get(name)), name)
    return tuple(hunks)


@dataclass(frozen=True, slots=True)
class _DiffItem:
    """A line of code: ``shape`` without names, and its ``names`` in order of appearance."""

    shape: str
    names: tuple[str, ...]
    content: Instruction | Label | str


class _AnonymousNames(CanonicalNames):
    """Prints registers as their type and labels as L, and collects their names in ``seen``."""

    def __init__(self, function: Function, strings: Mapping[str, str]) -> None:
        super().__init__(function, strings)
        self.seen: list[str] = []

    def register(self, register: Register) -> str:
        declared = self.declared.get(register.name)
        if declared is None:
            return register.name
        self.seen.append(register.name)
        return f"%{declared}"

    def label(self, name: str) -> str:
        self.seen.append(name)
        return "L"


class _DiffSide:
    """One version of a function, None if it does not exist there, as diff items."""

    def __init__(self, module: Module, function: Function | None) -> None:
        self.module = module
        self.function = function
        self.items: list[_DiffItem] = []
        if function is None:
            return
        shapes = _AnonymousNames(function, strings_of(module))
        self.items += (_DiffItem(text, (), text) for text in _declarations(module, function))
        for item in function.body or ():
            if isinstance(item, Label) and not shapes.is_target(item.name):
                continue
            shape = f"{shapes.label(item.name)}:" if isinstance(item, Label) else shapes.instruction(item)
            self.items.append(_DiffItem(shape, tuple(shapes.seen), item))
            shapes.seen.clear()

    def line(self, item: _DiffItem, names: CanonicalNames | None) -> CodeLine:
        if isinstance(item.content, str) or names is None:
            return CodeLine(item.shape)
        if isinstance(item.content, Label):
            return CodeLine(f"{names.label(item.content.name)}:")
        return CodeLine(names.instruction(item.content), tuple(self._places(item.content.location)))

    def _places(self, location: Location | None) -> Iterator[tuple[str, int]]:
        while location is not None:
            path = self.module.files.get(location.file)
            if path is not None and location.line > 0:  # line 0: no source line
                yield path, location.line - 1
            location = location.inlined_at


def _functions(old: _DiffSide, new: _DiffSide, name: str) -> Iterator[Hunk]:
    matched = _NameMatching()
    blocks: list[tuple[list[_DiffItem], list[_DiffItem]]] = []
    for first, second, equal in _aligned(old.items, new.items):
        if not equal:
            blocks.append((first, second))
            continue
        for left, right in zip(first, second, strict=True):
            if matched.agree(left.names, right.names):
                blocks.append(([], []))  # unchanged: ends the current hunk
            else:
                blocks.append(([left], [right]))
    before, after = _namings(old, new, matched)
    run: tuple[list[_DiffItem], list[_DiffItem]] = ([], [])
    for first, second in [*blocks, ([], [])]:
        if first or second:
            run[0].extend(first)
            run[1].extend(second)
        elif run[0] or run[1]:
            yield Hunk(
                name,
                tuple(old.line(item, before) for item in run[0]),
                tuple(new.line(item, after) for item in run[1]),
            )
            run = ([], [])


def _aligned(old: list[_DiffItem], new: list[_DiffItem]) -> Iterator[tuple[list[_DiffItem], list[_DiffItem], bool]]:
    """Yield pairs of runs in order, and whether their shapes are equal."""
    # Most edits are local: without the common prefix and suffix the quadratic matcher has little left.
    start = 0
    while start < min(len(old), len(new)) and old[start].shape == new[start].shape:
        start += 1
    end = 0
    while end < min(len(old), len(new)) - start and old[-1 - end].shape == new[-1 - end].shape:
        end += 1
    yield old[:start], new[:start], True
    middle = old[start : len(old) - end], new[start : len(new) - end]
    matcher = difflib.SequenceMatcher(
        None,
        [item.shape for item in middle[0]],
        [item.shape for item in middle[1]],
        autojunk=max(map(len, middle)) > _EXHAUSTIVE,
    )
    for tag, low, high, other_low, other_high in matcher.get_opcodes():
        yield middle[0][low:high], middle[1][other_low:other_high], tag == "equal"
    yield old[len(old) - end :], new[len(new) - end :], True


class _NameMatching:
    """Bijection between names of both versions, fixed where a name first occurs."""

    def __init__(self) -> None:
        self.new_of: dict[str, str] = {}
        self.old_of: dict[str, str] = {}

    def agree(self, old: tuple[str, ...], new: tuple[str, ...]) -> bool:
        """Add pairs of unmatched names; return whether all pairs agree with the bijection."""
        good = True
        for left, right in zip(old, new, strict=True):
            if left not in self.new_of and right not in self.old_of:
                self.new_of[left], self.old_of[right] = right, left
            good &= self.new_of.get(left) == right
        return good


class _AlignedNames(CanonicalNames):
    """Prints the new version with the old version's names; unmatched names are ``%newN`` and ``NewN``."""

    def __init__(
        self, side: Function, strings: Mapping[str, str], before: CanonicalNames, old_of: Mapping[str, str]
    ) -> None:
        super().__init__(side, strings)
        self._before = before
        self._old_of = old_of
        self._own: dict[str, str] = {}

    def register(self, register: Register) -> str:
        if register.name not in self.declared:
            return register.name
        old = self._old_of.get(register.name)
        return self._before.register(Register(old)) if old is not None else self._fresh(register.name, "%new")

    def label(self, name: str) -> str:
        old = self._old_of.get(name)
        return self._before.label(old) if old is not None else self._fresh(name, "New")

    def _fresh(self, name: str, prefix: str) -> str:
        return self._own.setdefault(name, f"{prefix}{len(self._own)}")


def _namings(
    old: _DiffSide, new: _DiffSide, matched: _NameMatching
) -> tuple[CanonicalNames | None, CanonicalNames | None]:
    if old.function is None or new.function is None:
        alone = [
            CanonicalNames(side.function, strings_of(side.module)) if side.function else None for side in (old, new)
        ]
        return alone[0], alone[1]
    before = CanonicalNames(old.function, strings_of(old.module))
    for item in old.items:  # numbers names in order of appearance in the function
        old.line(item, before)
    return before, _AlignedNames(new.function, strings_of(new.module), before, matched.old_of)


def _declarations(module: Module, function: Function) -> list[str]:
    """Return compared declarations: launch bounds, arrays, constant tables."""
    lines = [f".{name} {', '.join(map(str, values))}" for name, values in sorted(function.directives.items())]
    lines += (_declaration(variable) for variable in function.variables if variable.space in ("shared", "local"))
    mentioned = {operand for item in function.body or () if isinstance(item, Instruction) for operand in _symbols(item)}
    strings = strings_of(module)
    lines += (
        _declaration(variable)
        for variable in module.variables
        if variable.name in mentioned and variable.name not in strings
    )
    return lines


def _declaration(variable: Variable) -> str:
    """Return a variable's state space, type, name, size and initial image."""
    name = "__local_depot" if variable.name.startswith("__local_depot") else variable.name
    image = "" if not variable.init else f" = {variable.init.hex(' ', 4)}"
    return f".{variable.space} .{variable.type} {name}[{variable.size}]{image}"


def _symbols(instruction: Instruction) -> Iterator[str]:
    return (operand.name for operand in flat_operands(instruction.operands) if isinstance(operand, Symbol))


def _lines(lines: tuple[CodeLine, ...], path: str) -> frozenset[int]:
    """Return the innermost lines in ``path`` of lines of code."""
    found = (next((line for file, line in code.places if file == path), None) for code in lines)
    return frozenset(line for line in found if line is not None)
