"""Normal form of PTX for comparison: equal code has equal text, independent of register and label names.

Registers and labels are numbered in order of appearance; locations, pragmas and declarations are dropped; constants
stay, since an edited constant is a change. Strings appear by content: their names are numbered across the module, so an
unrelated ``printf`` would otherwise change every kernel.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping

from gpuemu_lsp.engine.ptx.literals import float_value
from gpuemu_lsp.engine.ptx.model import (
    Address,
    Function,
    Immediate,
    Instruction,
    Label,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)
from gpuemu_lsp.engine.ptx.traversal import instructions_of

_DEPOT = re.compile(r"__local_depot\d+")


def normalise(module: Module) -> str:
    """Return the normal form of every function with a body, sorted by name."""
    return "\n".join(
        normalise_function(module, function) for _, function in sorted(module.functions.items()) if function.body
    )


def normalise_function(module: Module, function: Function) -> str:
    """Return the normal form of one function: a head line, then one line per label and instruction."""
    strings = strings_of(module)
    names = CanonicalNames(function, strings)
    directives = "".join(
        f" .{name} {','.join(map(str, values))}" for name, values in sorted(function.directives.items())
    )
    kind = ".entry" if function.is_entry else ".func"
    lines = [f"{kind} {function.name}{directives}"]
    for item in function.body or ():
        if not isinstance(item, Label):
            lines.append(f"  {names.instruction(item)}")
        elif names.is_target(item.name):
            lines.append(f"{names.label(item.name)}:")
    return "\n".join(lines) + "\n"


def strings_of(module: Module) -> dict[str, str]:
    """Return the quoted contents of variables that are C strings, by name."""
    return {variable.name: shown for variable in module.variables if (shown := _string(variable)) is not None}


class CanonicalNames:
    """Prints a function with canonical names, numbered in order of first use."""

    def __init__(self, function: Function, strings: Mapping[str, str]) -> None:
        self.declared = function.registers
        self._strings = strings
        self._own_prefix = f"{function.name}_param_"
        self._labels = {item.name for item in function.body or () if isinstance(item, Label)}
        self._targets = {name for names in function.branch_targets.values() for name in names}
        for instruction in instructions_of(function):
            self._targets.update(operand.name for operand in instruction.operands if isinstance(operand, Symbol))
        self._registers: dict[str, str] = {}
        self._numbers: dict[str, str] = {}

    def is_target(self, name: str) -> bool:
        """Return whether a label is a branch target; debug information has labels too."""
        return name in self._targets

    def label(self, name: str) -> str:
        """Return the canonical name of a label."""
        return self._numbers.setdefault(name, f"L{len(self._numbers)}")

    def instruction(self, instruction: Instruction) -> str:
        """Return an instruction with canonical names."""
        guard = ""
        if instruction.guard is not None:
            guard = f"@{'!' * instruction.guard.negated}{self.register(instruction.guard.register)} "
        return f"{guard}{instruction.name} {', '.join(map(self._operand, instruction.operands))}".rstrip()

    def register(self, register: Register) -> str:
        """Return the canonical name of a register; special registers keep their name."""
        if register.name not in self.declared:
            return register.name
        return self._registers.setdefault(register.name, f"%{len(self._registers)}")

    def _symbol(self, symbol: Symbol) -> str:
        name = symbol.name
        if name in self._labels:
            shown = self.label(name)
        elif name.startswith(self._own_prefix):
            shown = f"param_{name[len(self._own_prefix) :]}"
        else:
            shown = self._strings.get(name) or _DEPOT.sub("__local_depot", name.partition("@")[0])
        return f"{shown}{symbol.offset:+d}" if symbol.offset else shown

    def _operand(self, operand: Operand) -> str:
        if isinstance(operand, Register):
            return self.register(operand)
        if isinstance(operand, Symbol):
            return self._symbol(operand)
        if isinstance(operand, Immediate):
            return _constant(operand)
        if isinstance(operand, Address):
            return (
                f"[{self._operand(operand.base)}{operand.offset:+d}]"
                if operand.offset
                else f"[{self._operand(operand.base)}]"
            )
        if isinstance(operand, Vector):
            return f"{{{', '.join(map(self._operand, operand.elements))}}}"
        if isinstance(operand, Pair):
            return f"{self.register(operand.first)}|{self.register(operand.second)}"
        if isinstance(operand, Negated):
            return f"!{self.register(operand.register)}"
        raise AssertionError(operand)


def _constant(immediate: Immediate) -> str:
    """Return the value of an immediate; texts of different bits differ."""
    if immediate.kind == "int":
        return str(immediate.bits)
    value = float_value(immediate)
    if math.isnan(value):
        return f"{immediate.kind}:{immediate.bits:#x}"
    return f"{immediate.kind}:{_shortest(value) if immediate.kind == 'f32' else repr(value)}"


def _shortest(value: float) -> str:
    """Return the shortest decimal that reads back as the same single-precision number."""
    texts = (f"{value:.{digits}g}" for digits in range(1, 10))
    return next(text for text in texts if struct.pack("<f", float(text)) == struct.pack("<f", value))


def _string(variable: Variable) -> str | None:
    """Return the quoted content of a variable that is a C string, else None."""
    if variable.type != "b8" or variable.alignment > 1 or variable.init is None or not variable.init.endswith(b"\0"):
        return None
    return repr(variable.init[:-1].decode("utf-8", "replace"))
