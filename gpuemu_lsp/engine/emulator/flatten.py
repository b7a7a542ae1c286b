"""From a PTX function to a :class:`Program`: basic blocks, calls expanded, variables laid out in their windows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.emulator.call_parameters import resolve_call_parameters
from gpuemu_lsp.engine.emulator.matrix import lowering
from gpuemu_lsp.engine.emulator.opcodes import (
    BARRIER_RESULT,
    BUILTIN_CALLS,
    COPY,
    POP,
    PUSH,
    is_barrier,
    is_collective,
    memory_space,
)
from gpuemu_lsp.engine.emulator.program import (
    EXIT,
    Barrier,
    Block,
    Branch,
    End,
    Invoke,
    Jump,
    Program,
    Return,
    Stop,
    Switch,
)
from gpuemu_lsp.engine.emulator.simplify import simplified
from gpuemu_lsp.engine.emulator.windows import RESERVED, lay_out, lay_out_shared
from gpuemu_lsp.engine.ptx.model import (
    Address,
    Function,
    Guard,
    Immediate,
    Instruction,
    Label,
    Location,
    Module,
    Negated,
    Operand,
    Pair,
    Register,
    Symbol,
    Variable,
    Vector,
)

_STACK = -2
"""In place of the block to return to: it lies on the thread's stack."""

_MAX_DEPTH = 24
"""Functions are expanded where they are called, this deep."""


def flatten(module: Module, entry: str) -> Program:
    """Return kernel ``entry`` of ``module`` as a flat program.

    What cannot be run (an indirect call, recursion without end) becomes a :class:`Stop` where it stands, so that only
    a kernel that reaches it is affected.

    Raises
    ------
    KeyError
        If ``entry`` is no kernel of the module.
    """
    function = module.functions[entry]
    if not function.is_entry or function.body is None:
        raise KeyError(entry)
    flattener = _Flattener(module)
    start = flattener.new_block()
    clustered = function.directives.get("reqnctapercluster", ())
    if math.prod(clustered) > 1:
        reason = f"blocks in clusters of {' x '.join(map(str, clustered))} cannot be run"
        first = next((item for item in function.body if isinstance(item, Instruction)), None)
        if first is not None:
            flattener.blocks[start].end = Stop(first, "engine/unsupported-instruction", reason)
    flattener.expand(function, start, {}, None, ())
    codes = [block.code for block in flattener.blocks]
    registers, codes, call_slots = resolve_call_parameters(codes, flattener.registers)
    ends = [block.end or Jump(EXIT) for block in flattener.blocks]
    shared, dynamic = lay_out_shared(module, flattener.shared)
    local, local_bytes = lay_out(flattener.local | call_slots, 16, 0)
    params, param_bytes = lay_out({p.name: p for p in function.params}, 8, 0)
    return Program(
        name=entry,
        blocks=tuple(Block(tuple(code), end) for code, end in zip(codes, ends, strict=True)),
        registers=registers,
        params=params,
        param_bytes=param_bytes,
        shared=shared,
        dynamic_shared=dynamic,
        local=local,
        local_bytes=local_bytes,
        functions=tuple(module.functions),
        variables={v.name: v for v in module.variables if v.space in ("global", "const")},
        recursive=any(isinstance(end, Invoke) for end in ends),
        max_threads=tuple(function.directives.get("reqntid", ())) or tuple(function.directives.get("maxntid", ())),
    )


@dataclass(slots=True)
class _Open:
    """A block under construction."""

    code: list[Instruction] = field(default_factory=list)
    end: End | None = None


class _Flattener:
    def __init__(self, module: Module) -> None:
        self.module = module
        self.blocks: list[_Open] = []
        self.registers: dict[str, str] = {}
        self.shared: dict[str, Variable] = {}
        self.local: dict[str, Variable] = {}
        self.frames = 0
        self.shared_bodies: dict[str, int] = {}
        self._recursive: dict[str, bool] = {}

    def is_recursive(self, name: str) -> bool:
        """Whether a function can come to call itself."""
        if name not in self._recursive:
            seen: set[str] = set()
            work = [name]
            while work:
                function = self.module.functions.get(work.pop())
                for callee in _callees(function):
                    if callee not in seen:
                        seen.add(callee)
                        work.append(callee)
            self._recursive[name] = name in seen
        return self._recursive[name]

    def new_block(self) -> int:
        self.blocks.append(_Open())
        return len(self.blocks) - 1

    def expand(
        self,
        function: Function,
        start: int,
        formals: Mapping[str, str],
        after: int | None,
        stack: tuple[str, ...],
        site: Location | None = None,
    ) -> None:
        """Write ``function`` from block ``start`` on; returns go to block ``after``, or end the thread when None.

        ``formals`` maps its parameters to the call variables of the caller. With ``after`` ``_STACK``, the place to
        return to lies on the thread's stack.
        """
        prefix = f"{self.frames}:" if stack else ""
        self.frames += 1
        frame = _Frame(self, function, prefix, formals, after, (*stack, function.name), site)
        self.registers.update({prefix + name: type_ for name, type_ in function.registers.items()})
        for variable in function.variables:
            if variable.space == "shared":
                self.shared[variable.name] = variable
            elif variable.space == "local":
                self.local[prefix + variable.name] = variable
        frame.walk(start)


class _Frame:
    """The expansion of one function body at one call site."""

    def __init__(
        self,
        owner: _Flattener,
        function: Function,
        prefix: str,
        formals: Mapping[str, str],
        after: int | None,
        stack: tuple[str, ...],
        site: Location | None,
    ) -> None:
        self._owner, self._function, self._prefix = owner, function, prefix
        self._formals, self._after, self._stack, self._site = formals, after, stack, site
        self._labels: dict[str, int] = {}
        self._locals = {v.name for v in function.variables if v.space == "local"}
        self._entry_params = {p.name for p in function.params} if function.is_entry else set()
        self._call, self._called = 0, True
        self._at = 0

    def walk(self, start: int) -> None:
        self._at = start
        for item in self._function.body or ():
            if isinstance(item, Label):
                block = self._label(item.name)
                self._close(Jump(block))
                self._at = block
            else:
                self._instruction(item)
        self._close(self._return())

    # ---- blocks ------------------------------------------------------------------------------------------------------

    def _label(self, name: str) -> int:
        if name not in self._labels:
            self._labels[name] = self._owner.new_block()
        return self._labels[name]

    def _close(self, end: End) -> None:
        """End the current block, unless something ended it already (what follows is then unreachable)."""
        block = self._owner.blocks[self._at]
        if block.end is None:
            block.end = end

    def _next(self, end: Callable[[int], End]) -> None:
        """End the current block with ``end(next)`` and go on in a new one."""
        following = self._owner.new_block()
        self._close(end(following))
        self._at = following

    def _put(self, instruction: Instruction) -> None:
        block = self._owner.blocks[self._at]
        if block.end is None:
            block.code.append(instruction)

    def _return(self) -> End:
        if self._after == _STACK:
            return Return()
        return Jump(EXIT if self._after is None else self._after)

    # ---- instructions ------------------------------------------------------------------------------------------------

    def _instruction(self, raw: Instruction) -> None:
        instruction = self._renamed(raw)
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
            for one in simplified(instruction, self._owner.registers):
                self._put(self._parameter_access(one))
            return
        guard, instruction = instruction.guard, replace(instruction, guard=None)
        if guard is None:
            self._special(instruction)
            return
        inside, behind = self._owner.new_block(), self._owner.new_block()
        self._close(Branch(guard, inside, behind))
        self._at = inside
        self._special(instruction)
        self._close(Jump(behind))
        self._at = behind

    def _branch(self, instruction: Instruction) -> None:
        target = instruction.operands[0]
        block = self._label(target.name) if isinstance(target, Symbol | Register) else EXIT
        guard = instruction.guard
        if guard is None:
            self._next(lambda _: Jump(block))
        else:
            self._next(lambda following: Branch(guard, block, following))

    def _special(self, instruction: Instruction) -> None:
        opcode = instruction.opcode
        if opcode == "ret":
            self._next(lambda _: self._return())
        elif opcode == "exit":
            self._next(lambda _: Jump(EXIT))
        elif opcode in ("trap", "brkpt"):
            self._next(lambda _: Stop(instruction, "sync/trap", f"the kernel executed `{opcode}`"))
        elif opcode == "brx":
            table = instruction.operands[1]
            names = self._function.branch_targets.get(table.name, ()) if isinstance(table, Symbol) else ()
            targets = tuple(self._label(name) for name in names)
            self._next(lambda _: Switch(instruction.operands[0], targets))
        elif opcode == "call":
            self._function_call(instruction)
        elif is_barrier(instruction):
            self._next(Jump)
            result = instruction.operands[0] if "red" in instruction.modifiers else None
            waits = instruction if result is None else replace(instruction, operands=instruction.operands[1:])
            self._next(lambda following: Barrier(waits, following))
            if result is not None:
                self._put(replace(instruction, opcode=BARRIER_RESULT, operands=(result,)))
        elif opcode in lowering.OPCODES:
            self._matrix(instruction)
        else:
            if self._owner.blocks[self._at].code:
                self._next(Jump)
            self._put(instruction)

    def _matrix(self, instruction: Instruction) -> None:
        """Write a tensor-core instruction as what it is made of, where all lanes of the warp have met."""
        lowered = lowering.lower(instruction, self._owner.registers)
        if lowered is None:
            self._unsupported(instruction, f"`{instruction.name}` cannot be run")
            return
        first = self._owner.blocks[self._at].code[:1]
        if not first or first[0].operands != (lowering.EVERY_LANE,):
            self._next(Jump)
            self._put(lowering.meeting(instruction))
        for one in lowered:
            self._put(one)

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _function_call(self, instruction: Instruction) -> None:
        returns, callee, arguments = instruction.operands[:3]
        if self._called:
            self._call += 1
        self._called = True
        name = callee.name if isinstance(callee, Symbol) else ""
        arguments_here = tuple(map(self._call_variable, _names(arguments)))
        returns_here = tuple(map(self._call_variable, _names(returns)))
        if name in BUILTIN_CALLS:
            operands = (
                Vector(tuple(Symbol(x) for x in returns_here)),
                Symbol(name),
                Vector(tuple(Symbol(x) for x in arguments_here)),
            )
            call = replace(instruction, operands=operands)
            if name == "__assertfail":
                self._put(call)
                self._next(lambda _: Stop(call, "sync/trap", "an assertion failed"))
            else:
                self._put(call)
            return
        if isinstance(callee, Register):
            self._indirect_call(instruction, callee, arguments_here, returns_here)
        else:
            self._direct_call(instruction, name, arguments_here, returns_here)

    def _direct_call(
        self, instruction: Instruction, name: str, arguments: tuple[str, ...], returns: tuple[str, ...]
    ) -> None:
        function = self._owner.module.functions.get(name)
        recursive = self._owner.is_recursive(name)
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
            start, following = self._owner.new_block(), self._owner.new_block()
            self._close(Jump(start))
            formals = dict(zip((p.name for p in function.params), arguments, strict=False))
            formals |= dict(zip((p.name for p in function.returns), returns, strict=False))
            self._owner.expand(function, start, formals, following, self._stack, instruction.location)
            self._at = following

    def _unsupported(self, instruction: Instruction, problem: str) -> None:
        self._next(lambda _: Stop(instruction, "engine/unsupported-instruction", problem))

    def _indirect_call(
        self, instruction: Instruction, callee: Register, arguments: tuple[str, ...], returns: tuple[str, ...]
    ) -> None:
        """Compare the address with that of each function of the prototype's form, and call the one it is."""
        prototype = instruction.operands[3] if len(instruction.operands) > 3 else None
        form = self._function.prototypes.get(prototype.name) if isinstance(prototype, Symbol) else None
        behind = self._owner.new_block()
        for name, function in self._owner.module.functions.items():
            if form is None or function.is_entry or function.body is None or not _fits(function, form):
                continue
            predicate = Register(f"{self._prefix}{name}?{self._call}")
            self._owner.registers[predicate.name] = "pred"
            compare = Instruction("setp", ("eq", "b64"), (predicate, callee, Symbol(name)), None, instruction.location)
            self._put(compare)
            inside, other = self._owner.new_block(), self._owner.new_block()
            self._close(Branch(Guard(predicate, False), inside, other))
            self._at = inside
            self._direct_call(instruction, name, arguments, returns)
            self._close(Jump(behind))
            self._at = other
        self._unsupported(instruction, "the address called is that of no function of this form")
        self._at = behind

    def _recursive_call(
        self, instruction: Instruction, function: Function, arguments: tuple[str, ...], returns: tuple[str, ...]
    ) -> None:
        """Call the one body that all calls of a recursive function share, with the thread's state on its stack."""
        owner = self._owner
        formals = {p.name: f"{function.name}:{p.name}" for p in (*function.params, *function.returns)}
        start = owner.shared_bodies.get(function.name)
        if start is None:
            start = owner.shared_bodies[function.name] = owner.new_block()
            owner.expand(function, start, formals, _STACK, (*self._stack, function.name), None)

        def copy(target: str, source: str) -> None:
            operands = (Symbol(target), Symbol(source))
            self._put(Instruction(COPY, (), operands, None, instruction.location, instruction.text_line))

        self._put(Instruction(PUSH, (), (), None, instruction.location, instruction.text_line))
        for formal, argument in zip(function.params, arguments, strict=False):
            copy(formals[formal.name], argument)
        results = tuple(formals[r.name] for r in function.returns)
        self._next(lambda following: Invoke(start, following, results, instruction))
        self._put(Instruction(POP, (), (), None, instruction.location, instruction.text_line))
        for result, formal in zip(returns, function.returns, strict=False):
            copy(result, formals[formal.name])

    def _call_variable(self, name: str) -> str:
        return f"{self._prefix}{name}#{self._call}"

    def _parameter_access(self, instruction: Instruction) -> Instruction:
        """Turn an access to a call's or a function's parameter into one to a variable of its own."""
        if instruction.opcode not in ("ld", "st") or memory_space(instruction) != "param":
            return instruction
        place = 0 if instruction.opcode == "st" else 1
        address = instruction.operands[place]
        if not isinstance(address, Address) or not isinstance(address.base, Symbol):
            return instruction
        name = address.base.name
        if name in self._entry_params:
            return instruction
        if name in self._formals:
            unique = self._formals[name]
        else:
            if instruction.opcode == "st" and self._called:
                self._call += 1
                self._called = False
            unique = self._call_variable(name)
        operands = list(instruction.operands)
        operands[place] = Address(Symbol(unique), address.offset + address.base.offset)
        return replace(instruction, operands=tuple(operands), modifiers=("call", *instruction.modifiers))

    # ---- renaming ----------------------------------------------------------------------------------------------------

    def _renamed(self, instruction: Instruction) -> Instruction:
        if instruction.opcode == "mov" and instruction.operands[-1] == Register(RESERVED.name):
            self._owner.shared[RESERVED.name] = RESERVED
            instruction = replace(instruction, operands=(instruction.operands[0], Symbol(RESERVED.name)))
        if not self._prefix:
            return instruction
        guard = instruction.guard
        return replace(
            instruction,
            operands=tuple(map(self._rename, instruction.operands)),
            guard=Guard(self._register(guard.register), guard.negated) if guard else None,
            location=_called_from(instruction.location, self._site),
        )

    def _register(self, register: Register) -> Register:
        if register.name in self._function.registers:
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


def _fits(function: Function, form: tuple[tuple[Variable, ...], tuple[Variable, ...]]) -> bool:
    """Whether a function has the results and parameters of a ``.callprototype``."""
    mine = ([v.size for v in function.returns], [v.size for v in function.params])
    return mine == ([v.size for v in form[0]], [v.size for v in form[1]])


def _callees(function: Function | None) -> Iterable[str]:
    for item in (function.body or ()) if function is not None else ():
        if isinstance(item, Instruction) and item.opcode == "call" and isinstance(item.operands[1], Symbol):
            yield item.operands[1].name


def _called_from(location: Location | None, site: Location | None) -> Location | None:
    """Append the call site to the inlining chain of a location inside the called function."""
    if location is None or site is None:
        return location or site
    if location.inlined_at is None:
        return replace(location, inlined_at=site)
    return replace(location, inlined_at=_called_from(location.inlined_at, site))


def _names(operand: Operand) -> tuple[str, ...]:
    if not isinstance(operand, Vector):
        return ()
    return tuple(element.name for element in operand.elements if isinstance(element, Symbol | Register))
