"""Inlining of function bodies: labels become basic blocks, control transfers become terminators, calls are inlined.

Recursive functions are the exception: all calls share one body (:class:`.RecursiveCall`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.emulator.frontend.address_spaces import RESERVED_SHARED
from gpuemu_lsp.engine.emulator.frontend.builder import InsertionPoint, ProgramBuilder
from gpuemu_lsp.engine.emulator.frontend.inlined_names import InlinedNames
from gpuemu_lsp.engine.emulator.frontend.simplify import simplified, with_state_space
from gpuemu_lsp.engine.emulator.ir.opcodes import (
    BARRIER_RESULT,
    BUILTIN_CALLS,
    COPY,
    POP,
    PUSH,
    is_barrier,
    is_collective,
)
from gpuemu_lsp.engine.emulator.ir.operands import elements
from gpuemu_lsp.engine.emulator.ir.program import (
    EXIT,
    BarrierSync,
    Branch,
    InlinedCall,
    Jump,
    RecursiveCall,
    Return,
    Switch,
    Terminator,
    Trap,
)
from gpuemu_lsp.engine.emulator.matrix import lowering
from gpuemu_lsp.engine.ptx.model import (
    REFUSED,
    Address,
    Function,
    Guard,
    Instruction,
    Label,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
)

_STACK = -2
"""In place of a return block: the return address is on the thread's call stack."""

_MAX_DEPTH = 24
"""Depth up to which calls are inlined; the program's size is exponential in it at worst."""


def inline_function(
    builder: ProgramBuilder,
    function: Function,
    start: int,
    formals: Mapping[str, str],
    after: int | None,
    stack: tuple[str, ...],
    call: Instruction | None = None,
) -> None:
    """Inline ``function`` from block ``start`` on; its returns continue at block ``after``, or exit if that is None.

    ``formals`` maps its parameters to the call variables of the caller, and ``stack`` names the functions on the call
    stack. With ``_STACK`` for ``after``, the return address is on the thread's call stack. ``call`` is the
    instruction, None for the kernel and for a body that all calls share.
    """
    number = builder.call_sites if stack else 0
    prefix = f"{number}:" if stack else ""
    builder.call_sites += 1
    if call is not None:
        builder.calls[number] = InlinedCall(function.name, call.call, call.text_line, call.location)
    builder.registers.update({prefix + name: type_ for name, type_ in function.registers.items()})
    for variable in function.variables:
        # A shared variable is static: one for all calls. A local one belongs to the call.
        if variable.space == "shared":
            builder.shared[variable.name] = variable
        elif variable.space == "local":
            builder.local[prefix + variable.name] = variable
    names = InlinedNames(function, number, formals, call.location if call is not None else None)
    _InlinedBody(builder, function, InsertionPoint(builder, start), names, after, (*stack, function.name)).write()


class _InlinedBody:
    """One function body being inlined at one call site."""

    def __init__(
        self,
        builder: ProgramBuilder,
        function: Function,
        insert: InsertionPoint,
        names: InlinedNames,
        after: int | None,
        stack: tuple[str, ...],
    ) -> None:
        self._builder, self._function, self._insert, self._names = builder, function, insert, names
        self._after, self._stack = after, stack
        self._labels: dict[str, int] = {}
        self._spaces = {v.name: v.space for v in (*builder.module.variables, *function.variables)}

    def write(self) -> None:
        """Append the body at the insertion point."""
        for item in self._function.body or ():
            if isinstance(item, Label):
                block = self._label(item.name)
                # Fall through from the block before, if it is still open.
                self._insert.terminate(Jump(block))
                self._insert.move(block)
            else:
                self._instruction(item)
        self._insert.terminate(self._return())

    def _label(self, name: str) -> int:
        if name not in self._labels:
            self._labels[name] = self._builder.new_block()
        return self._labels[name]

    def _return(self) -> Terminator:
        if self._after == _STACK:
            return Return()
        return Jump(EXIT if self._after is None else self._after)

    # ---- instructions ------------------------------------------------------------------------------------------------

    def _instruction(self, raw: Instruction) -> None:
        instruction = self._names.renamed(with_state_space(self._reserved(raw), self._spaces))
        opcode = instruction.opcode
        if opcode == "bra":
            self._branch(instruction)
            return
        special = (
            opcode in ("ret", "exit", "trap", "brkpt", "brx", "call", REFUSED)
            or is_barrier(instruction)
            or is_collective(instruction)
        )
        if not special:
            for one in simplified(instruction, self._builder.registers):
                self._insert.append(self._names.parameter_access(one))
            return
        # A guarded terminator or collective becomes a branch around an unguarded one.
        guard, instruction = instruction.guard, replace(instruction, guard=None)
        if guard is None:
            self._special(instruction)
            return
        inside, after = self._builder.new_block(), self._builder.new_block()
        self._insert.terminate(Branch(guard, inside, after))
        self._insert.move(inside)
        self._special(instruction)
        self._insert.terminate(Jump(after))
        self._insert.move(after)

    def _reserved(self, instruction: Instruction) -> Instruction:
        """Replace a read of the reserved shared memory's address by the address of a variable."""
        if instruction.opcode != "mov" or instruction.operands[-1] != Register(RESERVED_SHARED.name):
            return instruction
        self._builder.shared[RESERVED_SHARED.name] = RESERVED_SHARED
        return replace(instruction, operands=(instruction.operands[0], Symbol(RESERVED_SHARED.name)))

    def _branch(self, instruction: Instruction) -> None:
        target = instruction.operands[0]
        block = self._label(target.name) if isinstance(target, Symbol | Register) else EXIT
        guard = instruction.guard
        if guard is None:
            self._insert.terminate_with(lambda _: Jump(block))
        else:
            self._insert.terminate_with(lambda following: Branch(guard, block, following))

    def _special(self, instruction: Instruction) -> None:
        opcode = instruction.opcode
        if opcode == "ret":
            self._insert.terminate_with(lambda _: self._return())
        elif opcode == "exit":
            self._insert.terminate_with(lambda _: Jump(EXIT))
        elif opcode in ("trap", "brkpt"):
            self._insert.terminate_with(lambda _: Trap(instruction, "sync/trap", f"the kernel executed `{opcode}`"))
        elif opcode == REFUSED:
            self._insert.terminate_with(
                lambda _: Trap(instruction, "engine/not-executed", _names(instruction.operands)[0])
            )
        elif opcode == "brx":
            table = instruction.operands[1]
            names = self._function.branch_targets.get(table.name, ()) if isinstance(table, Symbol) else ()
            targets = tuple(self._label(name) for name in names)
            self._insert.terminate_with(lambda _: Switch(instruction.operands[0], targets))
        elif opcode == "call":
            self._function_call(instruction)
        elif is_barrier(instruction):
            # The barrier gets a block of its own: a warp is suspended and resumed at block boundaries.
            self._insert.terminate_with(Jump)
            result = instruction.operands[0] if "red" in instruction.modifiers else None
            waits = instruction if result is None else replace(instruction, operands=instruction.operands[1:])
            self._insert.terminate_with(lambda following: BarrierSync(waits, following))
            # The result of bar.red is known only when the barrier has completed: in the block after it.
            if result is not None:
                self._insert.append(replace(instruction, opcode=BARRIER_RESULT, operands=(result,)))
        elif opcode in lowering.OPCODES:
            self._matrix(instruction)
        else:
            # A collective comes first in its block, where lanes wait for each other.
            if self._insert.block.code:
                self._insert.terminate_with(Jump)
            self._insert.append(instruction)

    def _matrix(self, instruction: Instruction) -> None:
        """Append the instructions that a tensor-core instruction is lowered to, after a barrier of the warp."""
        lowered = lowering.lower(instruction, self._builder.registers)
        if lowered is None:
            self._unsupported(instruction, f"`{instruction.name}` cannot be run")
            return
        # Consecutive tensor-core instructions share one barrier: nothing in between can diverge.
        first = self._insert.block.code[:1]
        if not first or first[0].operands != (lowering.EVERY_LANE,):
            self._insert.terminate_with(Jump)
            self._insert.append(lowering.warp_barrier(instruction))
        for one in lowered:
            self._insert.append(one)
        if lowering.ends_with_barrier(instruction):
            barrier = lowering.group_barrier(instruction, self._builder.registers)
            for one in barrier[:-1]:
                self._insert.append(one)
            self._insert.terminate_with(Jump)
            self._insert.terminate_with(lambda following: BarrierSync(barrier[-1], following))

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _function_call(self, instruction: Instruction) -> None:
        returns, callee, arguments = instruction.operands[:3]
        self._names.begin_call()
        name = callee.name if isinstance(callee, Symbol) else ""
        arguments_here = tuple(map(self._actual, elements(arguments)))
        returns_here = tuple(map(self._actual, elements(returns)))
        if name in BUILTIN_CALLS:
            call = replace(instruction, operands=(Vector(returns_here), Symbol(name), Vector(arguments_here)))
            self._insert.append(call)
            # Declared as returning, but it never does.
            if name == "__assertfail":
                failed = Trap(call, "sync/trap", "an assertion failed", Cause.FAILED_ASSERT)
                self._insert.terminate_with(lambda _: failed)
            return
        if isinstance(callee, Register):
            self._indirect_call(instruction, callee, arguments_here, returns_here)
        else:
            self._direct_call(instruction, name, arguments_here, returns_here)

    def _actual(self, operand: Operand) -> Operand:
        """Return an argument or result with its name in the program; registers and constants have theirs already."""
        return Symbol(self._names.call_variable(operand.name)) if isinstance(operand, Symbol) else operand

    def _direct_call(
        self, instruction: Instruction, name: str, arguments: tuple[Operand, ...], returns: tuple[Operand, ...]
    ) -> None:
        function = self._builder.module.functions.get(name)
        recursive = self._builder.is_recursive(name)
        problem = None
        if function is None or function.body is None:
            problem = f"`{name}` has no body in this module"
        elif len(self._stack) >= _MAX_DEPTH or (name in self._stack and not recursive):
            problem = f"calls of `{name}` are nested too deeply"
        elif recursive and any(v.space == "local" for v in function.variables):
            problem = f"`{name}` calls itself and has local memory, which cannot be run"
        elif recursive and not all(isinstance(operand, Symbol) for operand in (*arguments, *returns)):
            problem = f"`{name}` calls itself and has parameters in registers, which cannot be run"
        if problem is not None or function is None:
            self._unsupported(instruction, problem or "")
        elif recursive:
            self._recursive_call(instruction, function, _names(arguments), _names(returns))
        else:
            start, following = self._builder.new_block(), self._builder.new_block()
            passed = list(zip(function.params, arguments, strict=False))
            returned = list(zip(function.returns, returns, strict=False))
            formals = {formal.name: self._formal(formal, actual) for formal, actual in (*passed, *returned)}
            for formal, actual in passed:
                self._transfer(instruction, formal, formals[formal.name], actual, to_formal=True)
            self._insert.terminate(Jump(start))
            inline_function(self._builder, function, start, formals, following, self._stack, instruction)
            self._insert.move(following)
            for formal, actual in returned:
                self._transfer(instruction, formal, formals[formal.name], actual, to_formal=False)

    def _formal(self, formal: Variable, actual: Operand) -> str:
        """Return the name, unique in the program, of a parameter or result of the call."""
        if formal.space == "param" and isinstance(actual, Symbol):
            return actual.name
        unique = self._names.call_variable(f"{formal.name}&{self._builder.call_sites}")
        if formal.space == "reg":
            self._builder.registers[unique] = formal.type
        return unique

    def _transfer(
        self, instruction: Instruction, formal: Variable, name: str, actual: Operand, *, to_formal: bool
    ) -> None:
        """Append the move of an argument to its parameter, or of a result to its register.

        Formal and actual parameters may each be registers or ``.param`` variables, arguments also constants (PTX ISA
        section 7.1). Two ``.param`` variables are one, and need no move.
        """
        if formal.space == "param" and isinstance(actual, Symbol):
            return
        bits = "pred" if formal.type == "pred" else f"b{formal.size * 8}"
        opcode = "mov"
        modifiers: tuple[str, ...] = (bits,)
        here: Operand = Register(name)
        there = actual
        if formal.space == "param":
            # The modifier marks an access to a call parameter, see `call_parameters`.
            opcode, modifiers, here = "st" if to_formal else "ld", ("call", "param", bits), Address(Symbol(name))
        elif isinstance(actual, Symbol):
            opcode, modifiers, there = "ld" if to_formal else "st", ("call", "param", bits), Address(actual)
        operands = (here, there) if to_formal else (there, here)
        if opcode == "mov" and isinstance(there, Register) and there.name == "_":
            return
        self._insert.append(replace(instruction, opcode=opcode, modifiers=modifiers, operands=operands))

    def _unsupported(self, instruction: Instruction, problem: str) -> None:
        self._insert.terminate_with(lambda _: Trap(instruction, "engine/unsupported-instruction", problem))

    def _indirect_call(
        self, instruction: Instruction, callee: Register, arguments: tuple[Operand, ...], returns: tuple[Operand, ...]
    ) -> None:
        """Compare the address with every function that has the signature of the prototype, and call the one it is."""
        prototype = instruction.operands[3] if len(instruction.operands) > 3 else None
        signature = self._function.prototypes.get(prototype.name) if isinstance(prototype, Symbol) else None
        after = self._builder.new_block()
        for name, function in self._builder.module.functions.items():
            if signature is None or function.is_entry or function.body is None or not _matches(function, signature):
                continue
            predicate = Register(self._names.comparison(name))
            self._builder.registers[predicate.name] = "pred"
            compare = Instruction("setp", ("eq", "b64"), (predicate, callee, Symbol(name)), None, instruction.location)
            self._insert.append(compare)
            inside, other = self._builder.new_block(), self._builder.new_block()
            self._insert.terminate(Branch(Guard(predicate, False), inside, other))
            self._insert.move(inside)
            self._direct_call(instruction, name, arguments, returns)
            self._insert.terminate(Jump(after))
            self._insert.move(other)
        self._unsupported(instruction, "the called address is not that of a function with this signature")
        self._insert.move(after)

    def _recursive_call(
        self, instruction: Instruction, function: Function, arguments: tuple[str, ...], returns: tuple[str, ...]
    ) -> None:
        """Call the body that all calls of a recursive function share, and save live registers around the call."""
        builder = self._builder
        formals = {p.name: f"{function.name}:{p.name}" for p in (*function.params, *function.returns)}
        start = builder.recursive_entries.get(function.name)
        if start is None:
            # Registered before the body is inlined: the calls inside of it find the entry.
            start = builder.recursive_entries[function.name] = builder.new_block()
            inline_function(builder, function, start, formals, _STACK, (*self._stack, function.name))

        def copy(target: str, source: str) -> None:
            operands = (Symbol(target), Symbol(source))
            self._insert.append(Instruction(COPY, (), operands, None, instruction.location, instruction.text_line))

        self._insert.append(Instruction(PUSH, (), (), None, instruction.location, instruction.text_line))
        for formal, argument in zip(function.params, arguments, strict=False):
            copy(formals[formal.name], argument)
        results = tuple(formals[r.name] for r in function.returns)
        self._insert.terminate_with(lambda following: RecursiveCall(start, following, results, instruction))
        self._insert.append(Instruction(POP, (), (), None, instruction.location, instruction.text_line))
        for result, formal in zip(returns, function.returns, strict=False):
            copy(result, formals[formal.name])


def _matches(function: Function, prototype: tuple[tuple[Variable, ...], tuple[Variable, ...]]) -> bool:
    """Whether the results and parameters of a function have the sizes of those of a ``.callprototype``."""
    mine = ([v.size for v in function.returns], [v.size for v in function.params])
    return mine == ([v.size for v in prototype[0]], [v.size for v in prototype[1]])


def _names(operands: tuple[Operand, ...]) -> tuple[str, ...]:
    return tuple(operand.name for operand in operands if isinstance(operand, Symbol))
