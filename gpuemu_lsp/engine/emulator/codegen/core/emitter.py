"""The emitter: operands and results of instructions in the shapes that code generation works with."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from llvmlite import ir

from gpuemu_lsp.engine.emulator import ops
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.codegen.core.register_types import literal
from gpuemu_lsp.engine.emulator.codegen.core.registers import RegisterFile
from gpuemu_lsp.engine.emulator.codegen.core.special_registers import special_base, special_vector
from gpuemu_lsp.engine.emulator.codegen.core.translation_unit import TranslationUnit, used_registers
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I64, Value, i64
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Negated, Operand, Register, Symbol


@dataclass(frozen=True, slots=True)
class LoadGroup:
    """Loads of one block that share one check, in program order."""

    members: tuple[Instruction, ...]


class Emitter(RegisterFile):
    """What the modules of :mod:`~gpuemu_lsp.engine.emulator.codegen.instructions` write instructions with.

    The layers below are the function (:class:`.WarpFunction`), the masks (:class:`.LaneMasks`) and the registers
    (:class:`.RegisterFile`); this one adds operands of any kind and the conversion of results to register types.
    """

    def __init__(self, unit: TranslationUnit, module: ir.Module, name: str) -> None:
        super().__init__(unit, module, name)
        self.load_groups: Mapping[int, LoadGroup] = {}
        self.load_group_checks: dict[int, Value] = {}
        self.used = used_registers(unit.program)

    def begin_block(self, number: int) -> None:
        """Make PTX basic block ``number`` the current one."""
        super().begin_block(number)
        self.load_groups = {}
        self.load_group_checks = {}

    # ---- operands ----------------------------------------------------------------------------------------------------

    def scalar_operand(self, operand: Operand, type_: str, part: int) -> Value:
        """Return an operand's base as PTX type ``type_``: of the warp, or of ``part``."""
        # A negated operand is a predicate: no other register has a complement in PTX.
        if isinstance(operand, Negated):
            return self.builder.not_(self.scalar_operand(operand.register, "pred", part))
        if isinstance(operand, Register) and operand.name in self.unit.program.registers:
            return ops.read_as(self.builder, self.base(operand.name, part), type_)
        # What is not a register of the program is a special register; `supported` has refused unknown ones.
        if isinstance(operand, Register):
            return ops.read_as(self.builder, special_base(self, operand.name, part), type_)
        return self.literal(operand, type_)

    def scalar_operand_for(self, operand: Operand, type_: str, part: int, parts: int) -> Value:
        """Return an operand's base for a result with ``parts`` bases: of ``part`` if there are several."""
        return self.first_lane_operand(operand, type_, part) if parts > 1 else self.scalar_operand(operand, type_, 0)

    def first_lane_operand(self, operand: Operand, type_: str, part: int) -> Value:
        """Return the value of an operand that is not varying in the first lane of ``part``."""
        value = self.scalar_operand(operand, type_, part)
        return self.base_of_part(value, self.shape(operand), part)

    def vector_operand(self, operand: Operand, type_: str, part: int) -> Value:
        """Return an operand of any shape as the vector of one part, of PTX type ``type_``."""
        if isinstance(operand, Negated):
            return self.builder.not_(self.vector_operand(operand.register, "pred", part))
        if isinstance(operand, Register):
            if operand.name in self.unit.program.registers:
                return ops.read_as(self.builder, self.vector(operand.name, part), type_)
            return ops.read_as(self.builder, special_vector(self, operand.name, part), type_)
        return t.splat(self.builder, self.literal(operand, type_), self.lanes)

    def literal(self, operand: Operand, type_: str) -> Value:
        """Return an immediate or the address of a variable as a scalar of PTX type ``type_``."""
        if isinstance(operand, Symbol):
            return ops.read_as(self.builder, self.symbol(operand), type_)
        assert isinstance(operand, Immediate)
        return literal(operand, type_)

    def symbol(self, symbol: Symbol) -> Value:
        """Return a variable's address in its state space's window as an i64 (PTX ISA section 6.4.2)."""
        program = self.unit.program
        # Shared and local variables have one address in all blocks and threads: the offset in their window.
        for window in (program.shared, program.local):
            slot = window.get(symbol.name)
            if slot is not None:
                return i64(slot.offset + symbol.offset)
        slot = program.params.get(symbol.name)
        if slot is not None:
            return self.builder.add(self.launch(LaunchRecord.PARAMS), i64(slot.offset + symbol.offset))
        index = self.unit.symbol_indices.get(symbol.name)
        if index is None:
            # Not a variable, then a function: its "address" is the number by which indirect calls select it.
            return i64(program.function_address(symbol.name) or 0)
        # By index and not by address: code is cached on disk, and every process has another arena.
        table = self.launch_pointer(LaunchRecord.SYMBOLS)
        return self.builder.add(t.load(self.builder, table, index * 8, I64), i64(symbol.offset))

    # ---- results -----------------------------------------------------------------------------------------------------

    def write_base(self, name: str, part: int, value: Value, type_: str) -> None:
        """Write the base of a register that is not varying; ``value`` is of PTX type ``type_``."""
        if name != "_":
            self._set_base(name, part, ops.write_as(self.builder, value, type_, self.register_type(name)))

    def write_vector(self, name: str, part: int, value: Value, type_: str) -> None:
        """Write one part of a varying register in the active lanes; ``value`` is of PTX type ``type_``."""
        if name != "_":
            self._set_vector(name, part, ops.write_as(self.builder, value, type_, self.register_type(name)))

    def write(self, name: str, part: int, value: Value, type_: str) -> None:
        """Write a scalar or a vector to a register of any shape; scalars are broadcast if it is varying."""
        if name == "_":
            return
        # A register is varying if any of its definitions is: this one may be uniform.
        if self.unit.divergence.shapes[name].varying:
            if not isinstance(value.type, ir.VectorType):
                value = t.splat(self.builder, value, self.lanes)
            self.write_vector(name, part, value, type_)
        else:
            self.write_base(name, part, value, type_)
