"""The LLVM function that executes a warp, while it is written: builders, sites, and values of the entry block."""

from __future__ import annotations

from collections.abc import Callable

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field, load_lanes, load_pointer
from gpuemu_lsp.engine.emulator.abi.fields import Field
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.translation_unit import TranslationUnit
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I32, POINTER, Value
from gpuemu_lsp.engine.emulator.llvm.text_builder import Builder, use_numbered_names


class WarpFunction:
    """``i32 warp(ptr context)``: executes the warp whose context is given until it returns a ``Status``.

    ``builder`` appends to the current position; ``preamble`` appends to the entry block, whose values dominate the
    whole function. ``lanes`` is the number of lanes in a native vector, ``parts`` the number of vectors in a warp.
    """

    def __init__(self, unit: TranslationUnit, module: ir.Module, name: str) -> None:
        self.unit = unit
        self.module = module
        self.lanes = unit.block_shape.lanes
        self.parts = unit.block_shape.parts
        self.function = ir.Function(module, ir.FunctionType(I32, [POINTER]), name)
        self.context = self.function.args[0]
        use_numbered_names(self.function)
        self.entry = self.function.append_basic_block("entry")
        # Two builders on the entry block: the preamble stays there and is terminated last, when all is hoisted.
        self.preamble = Builder(self.entry)
        self.builder = Builder(self.entry)
        self.block_number = 0
        self.position = 0
        self._entry_values: dict[str, Value] = {}
        self._first_sites = [0]
        for block in unit.program.blocks:
            # One site per instruction and one for the terminator.
            self._first_sites.append(self._first_sites[-1] + len(block.code) + 1)

    def begin_block(self, number: int) -> None:
        """Make PTX basic block ``number`` the current one."""
        self.block_number = number
        self.position = 0

    @property
    def site(self) -> int:
        """The number of the current instruction, the same in every version of the program."""
        return self.site_at(self.position)

    def site_at(self, position: int) -> int:
        """Return the site of the instruction at ``position`` in the current block."""
        return self._first_sites[self.block_number] + position

    # ---- basic blocks ------------------------------------------------------------------------------------------------

    def append_block(self, name: str = "") -> ir.Block:
        """Append an empty LLVM basic block."""
        return self.function.append_basic_block(name)

    def branch_unlikely(self, condition: Value, name: str) -> tuple[ir.Block, ir.Block]:
        """Branch to a new block if ``condition`` holds, which is rare; return (that block, the other successor)."""
        rare, usual = self.append_block(name), self.append_block()
        # Weights as of __builtin_expect: the rare block is laid out of line.
        branch = self.builder.cbranch(condition, rare, usual)
        branch.set_weights([1, 2000])
        return rare, usual

    # ---- values of the entry block -----------------------------------------------------------------------------------

    def record_field(self, key: str, record: str, field: Field, *, lanes: int = 1, pointer: bool = False) -> Value:
        """Return a field of ``record`` ("context", "launch" or "block"), loaded once, in the entry block.

        Only for fields that do not change while the function runs. ``lanes`` loads a vector of consecutive elements,
        ``pointer`` an address as a pointer instead of as an i64. ``key`` identifies the value.
        """
        value = self._entry_values.get(key)
        if value is None:
            address = self.context if record == "context" else self._record(record)
            if pointer:
                value = load_pointer(self.preamble, address, field)
            elif lanes > 1:
                value = load_lanes(self.preamble, address, field, lanes)
            else:
                value = load_field(self.preamble, address, field)
            self._entry_values[key] = value
        return value

    def _record(self, name: str) -> Value:
        address = self._entry_values.get(name)
        if address is None:
            link = Warp.LAUNCH if name == "launch" else Warp.BLOCK
            address = self._entry_values[name] = load_pointer(self.preamble, self.context, link)
        return address

    def launch(self, field: Field) -> Value:
        """Return a field of the launch record."""
        return self.record_field(f"launch+{field}", "launch", field)

    def launch_pointer(self, field: Field) -> Value:
        """Return an address in the launch record as a pointer."""
        return self.record_field(f"launch+{field} as pointer", "launch", field, pointer=True)

    def hoisted(self, key: str, make: Callable[[ir.IRBuilder], Value]) -> Value:
        """Return a launch-invariant value, computed once, in the entry block."""
        value = self._entry_values.get(key)
        if value is None:
            value = self._entry_values[key] = make(self.preamble)
        return value
