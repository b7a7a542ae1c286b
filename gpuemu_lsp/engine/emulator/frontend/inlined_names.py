"""Renaming of what one inlined function body names: registers, local variables, and parameters of its calls.

A function that is inlined twice has two sets of registers. A parameter is a variable of the caller, one per call (PTX
ISA section 5.1.6.2), to which the callee's ``ld.param`` and ``st.param`` are redirected.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuemu_lsp.engine.emulator.ir.opcodes import memory_space
from gpuemu_lsp.engine.ptx.model import (
    Address,
    Function,
    Guard,
    Immediate,
    Instruction,
    Location,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Vector,
)


class InlinedNames:
    """Names of one inlined body of ``function``.

    ``call`` is its number, the prefix of its registers; the kernel itself, 0, has none. ``formals`` maps the
    function's parameters to the call variables of its caller; ``site`` is the location of the call.
    """

    def __init__(self, function: Function, call: int, formals: Mapping[str, str], site: Location | None) -> None:
        self._registers, self._formals, self._site = function.registers, formals, site
        self._number, self._prefix = call, f"{call}:" if call else ""
        self._locals = {v.name for v in function.variables if v.space == "local"}
        self._entry_params = {p.name for p in function.params} if function.is_entry else set()
        self._call, self._called = 0, True

    # ---- calls -------------------------------------------------------------------------------------------------------

    def begin_call(self) -> None:
        """Assign the call variables written so far to this call."""
        if self._called:
            self._call += 1
        self._called = True

    def call_variable(self, name: str) -> str:
        """Return the name, unique in the program, of parameter or result ``name`` of the current call."""
        return f"{self._prefix}{name}#{self._call}"

    def comparison(self, callee: str) -> str:
        """Return the predicate that holds if the current call, through a pointer, is one of ``callee``."""
        return f"{self._prefix}{callee}?{self._call}"

    def parameter_access(self, instruction: Instruction) -> Instruction:
        """Redirect an access to a parameter of a call, or of this function, to its call variable.

        The modifier ``call`` in front marks the result for :mod:`.call_parameters`.
        """
        if instruction.opcode not in ("ld", "st") or memory_space(instruction) != "param":
            return instruction
        index = 0 if instruction.opcode == "st" else 1
        address = instruction.operands[index]
        if not isinstance(address, Address) or not isinstance(address.base, Symbol):
            return instruction
        name = address.base.name
        # Parameters of the kernel stay in the parameter window.
        if name in self._entry_params:
            return instruction
        if name in self._formals:
            unique = self._formals[name]
        else:
            # The first store of an argument after a call belongs to the next call.
            if instruction.opcode == "st" and self._called:
                self._call += 1
                self._called = False
            unique = self.call_variable(name)
        operands = list(instruction.operands)
        operands[index] = Address(Symbol(unique), address.offset + address.base.offset)
        return replace(instruction, operands=tuple(operands), modifiers=("call", *instruction.modifiers))

    # ---- registers and local variables -------------------------------------------------------------------------------

    def renamed(self, instruction: Instruction) -> Instruction:
        """Return an instruction with the program's names and the location of its call site."""
        if not self._prefix:
            return instruction
        guard = instruction.guard
        return replace(
            instruction,
            operands=tuple(map(self._rename, instruction.operands)),
            guard=Guard(self._register(guard.register), guard.negated) if guard else None,
            location=_called_from(instruction.location, self._site),
            call=self._number,
        )

    def _register(self, register: Register) -> Register:
        # A parameter in a register is the call variable itself.
        if register.name in self._formals:
            return Register(self._formals[register.name])
        if register.name in self._registers:
            return Register(self._prefix + register.name)
        return register

    def _rename(self, operand: Operand) -> Operand:
        match operand:
            case Register():
                return self._register(operand)
            case Symbol(name, offset) if name in self._locals:
                return Symbol(self._prefix + name, offset)
            case Address(base, offset):
                renamed = self._rename(base)
                assert isinstance(renamed, Register | Symbol | Immediate)
                return Address(renamed, offset)
            case Vector(elements):
                return Vector(tuple(map(self._rename, elements)))
            case Pair(first, second):
                return Pair(self._register(first), self._register(second))
            case Negated(register):
                return Negated(self._register(register))
            case _:
                return operand


def _called_from(location: Location | None, site: Location | None) -> Location | None:
    """Append the call site to the chain of inlined locations."""
    if location is None or site is None:
        return location or site
    if location.inlined_at is None:
        return replace(location, inlined_at=site)
    return replace(location, inlined_at=_called_from(location.inlined_at, site))
