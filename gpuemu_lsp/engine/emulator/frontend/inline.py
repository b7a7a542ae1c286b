"""The body of a function, written into a program where it is called: labels to blocks, calls to what they call."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuemu_lsp.engine.emulator.frontend.address_spaces import RESERVED_SHARED
from gpuemu_lsp.engine.emulator.frontend.builder import InsertionPoint, ProgramBuilder
from gpuemu_lsp.engine.emulator.frontend.naming import InlinedNames
from gpuemu_lsp.engine.emulator.frontend.simplify import simplified
from gpuemu_lsp.engine.emulator.ir.opcodes import (
    BARRIER_RESULT,
    BUILTIN_CALLS,
    COPY,
    POP,
    PUSH,
    is_barrier,
    is_collective,
)
from gpuemu_lsp.engine.emulator.ir.program import (
    EXIT,
    BarrierSync,
    Branch,
    Jump,
    RecursiveCall,
    Return,
    Switch,
    Terminator,
    Trap,
)
from gpuemu_lsp.engine.emulator.matrix import lowering
from gpuemu_lsp.engine.ptx.model import (
    Function,
    Guard,
    Instruction,
    Label,
    Location,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
)

_STACK = -2
"""In place of the block to return to: it lies on the thread's stack."""

_MAX_DEPTH = 24
"""Functions are expanded where they are called, this deep."""


def inline_function(
    draft: ProgramBuilder,
    function: Function,
    start: int,
    formals: Mapping[str, str],
    after: int | None,
    stack: tuple[str, ...],
    site: Location | None = None,
) -> None:
    """Write ``function`` from block ``start`` on; returns go to block ``after``, or end the thread when None.

    ``formals`` maps its parameters to the call variables of the caller, ``stack`` names the functions it is called
    from. With ``after`` ``_STACK``, the place to return to lies on the thread's stack.
    """
    prefix = f"{draft.frames}:" if stack else ""
    draft.frames += 1
    draft.registers.update({prefix + name: type_ for name, type_ in function.registers.items()})
    for variable in function.variables:
        if variable.space == "shared":
            draft.shared[variable.name] = variable
        elif variable.space == "local":
            draft.local[prefix + variable.name] = variable
    naming = InlinedNames(function, prefix, formals, site)
    _Expansion(draft, function, InsertionPoint(draft, start), naming, after, (*stack, function.name)).write()


class _Expansion:
    """The expansion of one function body at one call site."""

    def __init__(
        self,
        draft: ProgramBuilder,
        function: Function,
        cursor: InsertionPoint,
        naming: InlinedNames,
        after: int | None,
        stack: tuple[str, ...],
    ) -> None:
        self._draft, self._function, self._cursor, self._naming = draft, function, cursor, naming
        self._after, self._stack = after, stack
        self._labels: dict[str, int] = {}

    def write(self) -> None:
        for item in self._function.body or ():
            if isinstance(item, Label):
                block = self._label(item.name)
                self._cursor.close(Jump(block))
                self._cursor.move(block)
            else:
                self._instruction(item)
        self._cursor.close(self._return())

    def _label(self, name: str) -> int:
        if name not in self._labels:
            self._labels[name] = self._draft.new_block()
        return self._labels[name]

    def _return(self) -> Terminator:
        if self._after == _STACK:
            return Return()
        return Jump(EXIT if self._after is None else self._after)

    # ---- instructions ------------------------------------------------------------------------------------------------

    def _instruction(self, raw: Instruction) -> None:
        instruction = self._naming.renamed(self._reserved(raw))
        opcode = instruction.opcode
        if opcode == "bra":
            self._branch(instruction)
            return
        special = (
            opcode in ("ret", "exit", "trap", "brkpt", "brx", "call")
            or is_barrier(instruction)
            or is_collective(instruction)
        )
        if not special:
            for one in simplified(instruction, self._draft.registers):
                self._cursor.put(self._naming.parameter_access(one))
            return
        guard, instruction = instruction.guard, replace(instruction, guard=None)
        if guard is None:
            self._special(instruction)
            return
        inside, behind = self._draft.new_block(), self._draft.new_block()
        self._cursor.close(Branch(guard, inside, behind))
        self._cursor.move(inside)
        self._special(instruction)
        self._cursor.close(Jump(behind))
        self._cursor.move(behind)

    def _reserved(self, instruction: Instruction) -> Instruction:
        """Let the register that points to reserved shared memory be the address of a variable."""
        if instruction.opcode != "mov" or instruction.operands[-1] != Register(RESERVED_SHARED.name):
            return instruction
        self._draft.shared[RESERVED_SHARED.name] = RESERVED_SHARED
        return replace(instruction, operands=(instruction.operands[0], Symbol(RESERVED_SHARED.name)))

    def _branch(self, instruction: Instruction) -> None:
        target = instruction.operands[0]
        block = self._label(target.name) if isinstance(target, Symbol | Register) else EXIT
        guard = instruction.guard
        if guard is None:
            self._cursor.close_with(lambda _: Jump(block))
        else:
            self._cursor.close_with(lambda following: Branch(guard, block, following))

    def _special(self, instruction: Instruction) -> None:
        opcode = instruction.opcode
        if opcode == "ret":
            self._cursor.close_with(lambda _: self._return())
        elif opcode == "exit":
            self._cursor.close_with(lambda _: Jump(EXIT))
        elif opcode in ("trap", "brkpt"):
            self._cursor.close_with(lambda _: Trap(instruction, "sync/trap", f"the kernel executed `{opcode}`"))
        elif opcode == "brx":
            table = instruction.operands[1]
            names = self._function.branch_targets.get(table.name, ()) if isinstance(table, Symbol) else ()
            targets = tuple(self._label(name) for name in names)
            self._cursor.close_with(lambda _: Switch(instruction.operands[0], targets))
        elif opcode == "call":
            self._function_call(instruction)
        elif is_barrier(instruction):
            self._cursor.close_with(Jump)
            result = instruction.operands[0] if "red" in instruction.modifiers else None
            waits = instruction if result is None else replace(instruction, operands=instruction.operands[1:])
            self._cursor.close_with(lambda following: BarrierSync(waits, following))
            if result is not None:
                self._cursor.put(replace(instruction, opcode=BARRIER_RESULT, operands=(result,)))
        elif opcode in lowering.OPCODES:
            self._matrix(instruction)
        else:
            if self._cursor.block.code:
                self._cursor.close_with(Jump)
            self._cursor.put(instruction)

    def _matrix(self, instruction: Instruction) -> None:
        """Write a tensor-core instruction as what it is made of, where all lanes of the warp have met."""
        lowered = lowering.lower(instruction, self._draft.registers)
        if lowered is None:
            self._unsupported(instruction, f"`{instruction.name}` cannot be run")
            return
        first = self._cursor.block.code[:1]
        if not first or first[0].operands != (lowering.EVERY_LANE,):
            self._cursor.close_with(Jump)
            self._cursor.put(lowering.meeting(instruction))
        for one in lowered:
            self._cursor.put(one)

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _function_call(self, instruction: Instruction) -> None:
        returns, callee, arguments = instruction.operands[:3]
        self._naming.begin_call()
        name = callee.name if isinstance(callee, Symbol) else ""
        arguments_here = tuple(map(self._naming.call_variable, _names(arguments)))
        returns_here = tuple(map(self._naming.call_variable, _names(returns)))
        if name in BUILTIN_CALLS:
            operands = (
                Vector(tuple(Symbol(x) for x in returns_here)),
                Symbol(name),
                Vector(tuple(Symbol(x) for x in arguments_here)),
            )
            call = replace(instruction, operands=operands)
            self._cursor.put(call)
            if name == "__assertfail":
                self._cursor.close_with(lambda _: Trap(call, "sync/trap", "an assertion failed"))
            return
        if isinstance(callee, Register):
            self._indirect_call(instruction, callee, arguments_here, returns_here)
        else:
            self._direct_call(instruction, name, arguments_here, returns_here)

    def _direct_call(
        self, instruction: Instruction, name: str, arguments: tuple[str, ...], returns: tuple[str, ...]
    ) -> None:
        function = self._draft.module.functions.get(name)
        recursive = self._draft.is_recursive(name)
        problem = None
        if function is None or function.body is None:
            problem = f"`{name}` has no body in this module"
        elif len(self._stack) >= _MAX_DEPTH or (name in self._stack and not recursive):
            problem = f"calls of `{name}` are nested too deeply"
        elif recursive and any(v.space == "local" for v in function.variables):
            problem = f"`{name}` calls itself and has local memory, which cannot be run"
        if problem is not None or function is None:
            self._unsupported(instruction, problem or "")
        elif recursive:
            self._recursive_call(instruction, function, arguments, returns)
        else:
            start, following = self._draft.new_block(), self._draft.new_block()
            self._cursor.close(Jump(start))
            formals = dict(zip((p.name for p in function.params), arguments, strict=False))
            formals |= dict(zip((p.name for p in function.returns), returns, strict=False))
            inline_function(self._draft, function, start, formals, following, self._stack, instruction.location)
            self._cursor.move(following)

    def _unsupported(self, instruction: Instruction, problem: str) -> None:
        self._cursor.close_with(lambda _: Trap(instruction, "engine/unsupported-instruction", problem))

    def _indirect_call(
        self, instruction: Instruction, callee: Register, arguments: tuple[str, ...], returns: tuple[str, ...]
    ) -> None:
        """Compare the address with that of each function of the prototype's form, and call the one it is."""
        prototype = instruction.operands[3] if len(instruction.operands) > 3 else None
        form = self._function.prototypes.get(prototype.name) if isinstance(prototype, Symbol) else None
        behind = self._draft.new_block()
        for name, function in self._draft.module.functions.items():
            if form is None or function.is_entry or function.body is None or not _fits(function, form):
                continue
            predicate = Register(self._naming.comparison(name))
            self._draft.registers[predicate.name] = "pred"
            compare = Instruction("setp", ("eq", "b64"), (predicate, callee, Symbol(name)), None, instruction.location)
            self._cursor.put(compare)
            inside, other = self._draft.new_block(), self._draft.new_block()
            self._cursor.close(Branch(Guard(predicate, False), inside, other))
            self._cursor.move(inside)
            self._direct_call(instruction, name, arguments, returns)
            self._cursor.close(Jump(behind))
            self._cursor.move(other)
        self._unsupported(instruction, "the address called is that of no function of this form")
        self._cursor.move(behind)

    def _recursive_call(
        self, instruction: Instruction, function: Function, arguments: tuple[str, ...], returns: tuple[str, ...]
    ) -> None:
        """Call the one body that all calls of a recursive function share, with the thread's state on its stack."""
        draft = self._draft
        formals = {p.name: f"{function.name}:{p.name}" for p in (*function.params, *function.returns)}
        start = draft.shared_bodies.get(function.name)
        if start is None:
            start = draft.shared_bodies[function.name] = draft.new_block()
            inline_function(draft, function, start, formals, _STACK, (*self._stack, function.name))

        def copy(target: str, source: str) -> None:
            operands = (Symbol(target), Symbol(source))
            self._cursor.put(Instruction(COPY, (), operands, None, instruction.location, instruction.text_line))

        self._cursor.put(Instruction(PUSH, (), (), None, instruction.location, instruction.text_line))
        for formal, argument in zip(function.params, arguments, strict=False):
            copy(formals[formal.name], argument)
        results = tuple(formals[r.name] for r in function.returns)
        self._cursor.close_with(lambda following: RecursiveCall(start, following, results, instruction))
        self._cursor.put(Instruction(POP, (), (), None, instruction.location, instruction.text_line))
        for result, formal in zip(returns, function.returns, strict=False):
            copy(result, formals[formal.name])


def _fits(function: Function, form: tuple[tuple[Variable, ...], tuple[Variable, ...]]) -> bool:
    """Whether a function has the results and parameters of a ``.callprototype``."""
    mine = ([v.size for v in function.returns], [v.size for v in function.params])
    return mine == ([v.size for v in form[0]], [v.size for v in form[1]])


def _names(operand: Operand) -> tuple[str, ...]:
    if not isinstance(operand, Vector):
        return ()
    return tuple(element.name for element in operand.elements if isinstance(element, Symbol | Register))
