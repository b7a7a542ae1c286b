"""Builder of a function body: scopes, registers, variables, labels, instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.ptx.errors import UnlocatedSyntaxError, shown
from gpuemu_lsp.engine.ptx.model import (
    REFUSED,
    Guard,
    Immediate,
    Instruction,
    Label,
    Location,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
)
from gpuemu_lsp.engine.ptx.operands import RegisterSum, operand, operand_or_sum, split
from gpuemu_lsp.engine.ptx.variables import SIZES, variable

_REGISTERS = re.compile(r"\.reg\s*(?:\.align\s+\d+\s*)?(?:\.(v[248])\s*)?\.(\w+)\s+(.*)", re.S | re.ASCII)
_NUMBERED = re.compile(r"([%\w$]+?)\s*<\s*(\d{1,7})\s*>", re.ASCII)
_IDENTIFIER = re.compile(r"[A-Za-z_$%][\w$]*", re.ASCII)
_CALL = re.compile(r"\s*(?:\(([^()]*)\)\s*,\s*)?([%\w$]+)\s*(?:,\s*\(([^()]*)\)\s*)?(?:,\s*([\w$]+)\s*)?", re.ASCII)
_USED_BYTES = re.compile(r'"\s*used_bytes_mask\s+(0[xX][0-9a-fA-F]+|[0-9]+)\s*"')
_REFUSED = re.compile(r'"gpuemu-refused ([^"]+)"')
_SUMMABLE = frozenset(f"{kind}{bits}" for kind in "bsu" for bits in (16, 32, 64))
_MOST_REGISTERS = 1 << 20


@dataclass(slots=True)
class _Scope:
    """One ``{ }``: its names, its cache of parsed operands, and the index of its first item."""

    first_item: int
    names: dict[str, Operand] = field(default_factory=dict)
    operands: dict[str, Operand] = field(default_factory=dict)
    labels: set[str] = field(default_factory=set)


class FunctionBuilder:
    """Collects the statements of a function body.

    Names of inner scopes (inline assembly, call sequences) get a suffix ``@N``, which no PTX identifier contains.
    Methods raise SyntaxProblem.
    """

    def __init__(self) -> None:
        self.registers: dict[str, str] = {}
        self.variables: list[Variable] = []
        self.items: list[Instruction | Label] = []
        self._scopes = [_Scope(0)]
        self._inner = 0
        self._opcodes: dict[str, tuple[str, tuple[str, ...]]] = {}
        self._used_bytes: int | None = None

    @property
    def depth(self) -> int:
        """Number of open inner scopes."""
        return len(self._scopes) - 1

    def open(self) -> None:
        """Enter an inner scope."""
        self._scopes.append(_Scope(len(self.items)))

    def close(self) -> None:
        """Leave the innermost scope; its labels get unique names."""
        scope = self._scopes.pop()
        if scope.labels:
            self._rename_labels(scope)

    def find(self, name: str) -> Operand | None:
        """Return the operand that a name denotes in the current scope; None if the function does not declare it."""
        for scope in reversed(self._scopes):
            found = scope.names.get(name)
            if found is not None:
                return found
        return None

    def declare_registers(self, text: str) -> None:
        """Add the registers of ``.reg .b32 %r<5>, x``."""
        match = _REGISTERS.fullmatch(text)
        if match is None or match[2] not in SIZES:
            raise UnlocatedSyntaxError(f"expected .reg .TYPE NAME, found {shown(text)}")
        lanes = int(match[1][1:]) if match[1] else 0
        for item in match[3].split(","):
            for name in _register_names(item.strip()):
                self.declare_register(name, match[2], lanes)
        if len(self.registers) > _MOST_REGISTERS:
            raise UnlocatedSyntaxError("too many registers")
        self._scopes[-1].operands.clear()

    def declare_variable(self, text: str) -> None:
        """Add a variable: local, shared of the kernel, or ``.param`` of a call sequence."""
        declared = variable(text)
        unique = self._unique(declared.name)
        self._scopes[-1].names[declared.name] = Symbol(unique)
        self._scopes[-1].operands.clear()
        self.variables.append(declared if unique == declared.name else replace(declared, name=unique))

    def label(self, name: str, line: int) -> None:
        """Add a label."""
        if self.depth:
            self._scopes[-1].labels.add(name)
        self.items.append(Label(name, line))

    def pragma(self, text: str, location: Location | None, line: int) -> None:
        """Take a pragma: the mask of ``"used_bytes_mask M"``, which holds for the next load, or one of our own headers.

        Others have no effect.
        """
        if (match := _USED_BYTES.search(text)) is not None:
            self._used_bytes = int(match[1], 0)
        elif (match := _REFUSED.search(text)) is not None:
            self.items.append(Instruction(REFUSED, (), (Symbol(match[1]),), None, location, line))

    def instruction(self, match: re.Match[str], location: Location | None, line: int) -> None:
        """Add an instruction from a match of the statement pattern."""
        name = match["opcode"]
        parts = self._opcodes.get(name)
        if parts is None:
            # White space between them comes from hand-written inline assembly.
            opcode, *modifiers = "".join(name.split()).split(".")
            parts = self._opcodes[name] = (opcode, tuple(modifiers))
        predicate = match["guard"]
        guard = None
        if predicate is not None:
            register = self._operand(predicate)
            if not isinstance(register, Register):
                raise UnlocatedSyntaxError(f"expected a predicate register, found {shown(predicate)}")
            guard = Guard(register, match["negated"] == "!")
        text = match["operands"]
        operands = self._call(text) if parts[0] == "call" else self._operands(text, location, line)
        self.items.append(Instruction(parts[0], parts[1], operands, guard, location, line, self._used_bytes))
        self._used_bytes = None

    def _operands(self, text: str, location: Location | None = None, line: int = 0) -> tuple[Operand, ...]:
        if not text or text.isspace():
            return ()
        if "+" not in text:
            return tuple([self._operand(part) for part in split(text)])
        parsed = [operand_or_sum(part, self.find) for part in split(text)]
        return tuple([self._sum(one, location, line) if isinstance(one, RegisterSum) else one for one in parsed])

    def _sum(self, value: RegisterSum, location: Location | None, line: int) -> Register:
        """Add an instruction before the current one that computes a register plus a constant, as ptxas does."""
        kind = self.registers.get(value.register.name, "")
        if kind not in _SUMMABLE:
            raise UnlocatedSyntaxError(f"a constant cannot be added to '{value.register.name}'")
        self._inner += 1
        result = Register(f"%sum@{self._inner}")
        self.registers[result.name] = kind
        operands = (result, value.register, Immediate(value.offset, "int"))
        self.items.append(Instruction("add", (f"u{kind[1:]}",), operands, None, location, line))
        return result

    def _operand(self, text: str) -> Operand:
        known = self._scopes[-1].operands
        found = known.get(text)
        if found is None:
            found = known[text] = operand(text, self.find)
        return found

    def _call(self, text: str) -> tuple[Operand, ...]:
        match = _CALL.fullmatch(text)
        if match is None:
            raise UnlocatedSyntaxError(f"expected call (RESULTS), FUNCTION, (ARGUMENTS), found {shown(text)}")
        returns, callee, arguments, prototype = match.groups()
        extra = (Symbol(prototype),) if prototype else ()
        return (
            Vector(self._operands(returns or "")),
            self._operand(callee),
            Vector(self._operands(arguments or "")),
            *extra,
        )

    def declare_register(self, name: str, kind: str, lanes: int = 0) -> None:
        """Add a register, or with ``lanes`` a vector of registers."""
        if lanes:
            elements = [f"{name}.{axis}" for axis in "xyzwabcd"[:lanes]]
            unique = [self._unique(element) for element in elements]
            self.registers.update(dict.fromkeys(unique, kind))
            self._scopes[-1].names[name] = Vector(tuple(map(Register, unique)))
        else:
            single = self._unique(name)
            self.registers[single] = kind
            self._scopes[-1].names[name] = Register(single)

    def _unique(self, name: str) -> str:
        if not self.depth:
            return name
        self._inner += 1
        return f"{name}@{self._inner}"

    def _rename_labels(self, scope: _Scope) -> None:
        """Make the labels of a closed scope unique (PTX ISA section 4.4.2): inlined assembly repeats its own."""
        renamed = {name: self._unique_label(name) for name in scope.labels}
        for index in range(scope.first_item, len(self.items)):
            item = self.items[index]
            if isinstance(item, Label):
                if item.name in renamed:
                    self.items[index] = replace(item, name=renamed[item.name])
            elif item.opcode in ("bra", "brx"):
                operands = tuple(
                    replace(part, name=renamed[part.name])
                    if isinstance(part, Symbol) and part.name in renamed
                    else part
                    for part in item.operands
                )
                self.items[index] = replace(item, operands=operands)

    def _unique_label(self, name: str) -> str:
        self._inner += 1
        return f"{name}@{self._inner}"


def _register_names(item: str) -> list[str]:
    if _IDENTIFIER.fullmatch(item):
        return [item]
    match = _NUMBERED.fullmatch(item)
    if match is None:
        raise UnlocatedSyntaxError(f"expected a register name, found {shown(item)}")
    count = int(match[2])
    if count > _MOST_REGISTERS:
        raise UnlocatedSyntaxError(f"too many registers: {shown(item)}")
    return [f"{match[1]}{index}" for index in range(count)]
