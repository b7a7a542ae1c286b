"""PTX extended by a log of the accesses that one thread makes at one line."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass

from gpuemu_lsp.engine.execution import Dim3
from gpuemu_lsp.engine.ptx import PtxError, parse
from gpuemu_lsp.engine.ptx.model import Function, Instruction, Location, Module

LOG = "gpuemu_log"
"""Name of the parameter that is added to the kernel: the address of the log."""
_MOST_ACCESSES = 32
_ACCESS = re.compile(
    r"\s*(?:@(?P<guard>!?[%$\w]+)\s+)?(?P<opcode>ld|st)\.(?P<modifiers>[\w.:]+)\s+(?P<operands>.*);\s*"
)
_MEMORY = re.compile(r"\[\s*(?P<base>[%$\w]+)\s*(?:\+\s*(?P<offset>-?\d+)\s*)?\]")
_VALUE_TYPES = {f"{kind}{bits}": bits // 8 for kind in "busf" for bits in (8, 16, 32, 64)}
_SPACES = {"param", "local", "const"}

ENTRY_BYTES = 64
"""Bytes of one access in the log: whether it was executed (8), its address (8), up to four elements (8 each)."""
ADDRESS, VALUES = 8, 16


@dataclass(frozen=True, slots=True)
class LoggedAccess:
    """An access in the log, at ``ENTRY_BYTES`` times its position; ``type_`` is its PTX type."""

    stores: bool
    type_: str
    elements: int

    @property
    def size(self) -> int:
        """Bytes of one element."""
        return _VALUE_TYPES[self.type_]


@dataclass(frozen=True, slots=True)
class LoggedPtx:
    """The extended text. The addresses of ``bases`` (parameters, then shared variables) follow the accesses."""

    text: str
    accesses: tuple[LoggedAccess, ...]
    bases: tuple[str, ...]

    @property
    def size(self) -> int:
        """Bytes of the log."""
        return ENTRY_BYTES * len(self.accesses) + 8 * len(self.bases)


def with_log(text: str, entry: str, at_line: Callable[[Location], bool], thread: Dim3, block: Dim3) -> LoggedPtx | None:
    """Return PTX that logs what a thread loads and stores at a line; None if there is nothing that can be logged.

    Accesses in functions that are not inlined, and those of local memory, are left out.
    """
    try:
        module = parse(text)
    except PtxError:
        return None
    function = module.functions.get(entry)
    if function is None or not function.body:
        return None
    lines = text.split("\n")
    found: list[tuple[int, LoggedAccess, list[str], list[str]]] = []
    for one in function.body:
        if isinstance(one, Instruction) and one.location is not None and at_line(one.location):
            logged = _logged(one, function, lines[one.text_line], ENTRY_BYTES * len(found))
            if logged is not None:
                found.append((one.text_line, *logged))
    first = next((one.text_line for one in function.body if isinstance(one, Instruction)), None)
    head = _parameter_list(lines, function)
    if not found or len(found) > _MOST_ACCESSES or first is None or head is None:
        return None
    bases = _bases(module, function)
    for number, _, before, after in reversed(found):
        lines[number : number + 1] = [*before, lines[number], *after]
    lines[first:first] = _prologue(bases, ENTRY_BYTES * len(found), thread, block)
    number, column = head
    comma = ", " if function.params else ""
    lines[number] = f"{lines[number][:column]}{comma}.param .u64 {LOG}{lines[number][column:]}"
    return LoggedPtx("\n".join(lines), tuple(access for _, access, *_ in found), tuple(name for name, _ in bases))


def _logged(
    instruction: Instruction, function: Function, line: str, start: int
) -> tuple[LoggedAccess, list[str], list[str]] | None:
    """Return an access with the PTX before and after it that writes its entry, ``start`` bytes into the log."""
    match = _ACCESS.fullmatch(line)
    if match is None or not _SPACES.isdisjoint(instruction.modifiers):
        return None
    type_ = match["modifiers"].rpartition(".")[2]
    memory = _MEMORY.search(match["operands"])
    if type_ not in _VALUE_TYPES or memory is None:
        return None
    rest = match["operands"][: memory.start()] + match["operands"][memory.end() :]
    values = [value for value in re.split(r"[\s,{}]+", rest) if value and value != "_"]
    if not 1 <= len(values) <= 4:
        return None
    base = memory["base"]
    width = function.registers.get(base, "")[1:]
    if base.startswith("%") and width not in ("32", "64"):
        return None
    before = [
        *_guarded(match["guard"]),
        f"cvt.u64.u32 %gl1, {base};" if width == "32" else f"mov.u64 %gl1, {base};",
        f"add.s64 %gl1, %gl1, {memory['offset'] or 0};",
        f"@%gq1 st.global.u64 [%gl0+{start + ADDRESS}], %gl1;",
        f"@%gq1 st.global.u64 [%gl0+{start}], 1;",
    ]
    after = [
        f"@%gq1 st.global.{type_} [%gl0+{start + VALUES + 8 * number}], {value};" for number, value in enumerate(values)
    ]
    return LoggedAccess(match["opcode"] == "st", type_, len(values)), before, after


def _guarded(guard: str | None) -> list[str]:
    """Return PTX that sets ``%gq1`` if the thread is the wanted one and executes an instruction with this guard."""
    if guard is None:
        return ["and.pred %gq1, %gq0, %gq0;"]
    if guard.startswith("!"):
        return [f"not.pred %gq1, {guard[1:]};", "and.pred %gq1, %gq1, %gq0;"]
    return [f"and.pred %gq1, {guard}, %gq0;"]


def _bases(module: Module, function: Function) -> list[tuple[str, str]]:
    """Return the names whose addresses are logged, each with the instruction that loads the address."""
    found = [
        (parameter.name, f"ld.param.u64 %gl2, [{parameter.name}];")
        for parameter in function.params
        if parameter.type in ("u64", "b64", "s64")
    ]
    shared = [one for one in (*function.variables, *module.variables) if one.space == "shared"]
    return found + [(one.name, f"mov.u64 %gl2, {one.name};") for one in shared]


def _prologue(bases: list[tuple[str, str]], start: int, thread: Dim3, block: Dim3) -> list[str]:
    lines = [
        ".reg .pred %gq<2>;",
        ".reg .b32 %gi<1>;",
        ".reg .b64 %gl<3>;",
        f"ld.param.u64 %gl0, [{LOG}];",
        "cvta.to.global.u64 %gl0, %gl0;",
    ]
    wanted = zip(("tid", "ctaid"), (thread, block), strict=True)
    numbers = [(f"%{name}.{axis}", value) for name, values in wanted for axis, value in zip("xyz", values, strict=True)]
    for position, (register, value) in enumerate(numbers):
        lines.append(f"mov.u32 %gi0, {register};")
        compare = "setp.eq.and.u32" if position else "setp.eq.u32"
        lines.append(f"{compare} %gq0, %gi0, {value}{', %gq0' if position else ''};")
    for position, (_, load) in enumerate(bases):
        lines += [load, f"@%gq0 st.global.u64 [%gl0+{start + 8 * position}], %gl2;"]
    return lines


def _parameter_list(lines: list[str], function: Function) -> tuple[int, int] | None:
    """Return line and column of the parenthesis that closes the parameter list; None if the kernel has no list."""
    first, last = function.text_lines
    opened = False
    for number in range(first, last + 1):
        for column, sign in enumerate(lines[number]):
            if sign == "{":
                return None
            opened = opened or sign == "("
            if sign == ")" and opened:
                return number, column
    return None
