"""From a PTX function to a :class:`Program`: basic blocks, calls expanded, variables laid out in their windows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

from gpuemu_lsp.engine.emulator.opcodes import (
    BARRIER_RESULT,
    BUILTIN_CALLS,
    COPY,
    POP,
    PUSH,
    access_type,
    is_barrier,
    is_collective,
    memory_space,
    type_bytes,
    vector_length,
)
from gpuemu_lsp.engine.emulator.operands import CARRY
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
    Slot,
    Stop,
    Switch,
)
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

_RED_ZONE = 128
"""Unaddressable bytes between neighbouring shared variables, so that an overrun of one is seen."""

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
    flattener.expand(function, start, {}, None, ())
    registers, blocks, call_slots = _resolve_call_parameters(flattener)
    shared, dynamic = _lay_out_shared(module, flattener.shared)
    local, local_bytes = _lay_out(flattener.local | call_slots, 16, 0)
    params, param_bytes = _lay_out({p.name: p for p in function.params}, 8, 0)
    return Program(
        name=entry,
        blocks=_finish(blocks),
        registers=registers,
        params=params,
        param_bytes=param_bytes,
        shared=shared,
        dynamic_shared=dynamic,
        local=local,
        local_bytes=local_bytes,
        variables={v.name: v for v in module.variables if v.space in ("global", "const")},
        recursive=any(isinstance(block.end, Invoke) for block in blocks),
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
            self._put(self._parameter_access(instruction))
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
        else:
            if self._owner.blocks[self._at].code:
                self._next(Jump)
            self._put(instruction)

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
        function = self._owner.module.functions.get(name)
        problem = None
        recursive = self._owner.is_recursive(name)
        if not name:
            problem = "an indirect call cannot be run"
        elif function is None or function.body is None:
            problem = f"`{name}` has no body in this module"
        elif len(self._stack) >= _MAX_DEPTH:
            problem = f"calls of `{name}` are nested too deeply"
        elif recursive and any(v.space == "local" for v in function.variables):
            problem = f"`{name}` calls itself and has local memory, which cannot be run"
        if problem is not None or function is None:
            stop = Stop(instruction, "engine/unsupported-instruction", problem or "")
            self._next(lambda _: stop)
            return
        if recursive:
            self._recursive_call(instruction, function, arguments_here, returns_here)
            return
        start, following = self._owner.new_block(), self._owner.new_block()
        self._close(Jump(start))
        formals = dict(zip((p.name for p in function.params), arguments_here, strict=False))
        formals |= dict(zip((p.name for p in function.returns), returns_here, strict=False))
        self._owner.expand(function, start, formals, following, self._stack, instruction.location)
        self._at = following

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


# ---- parameters of calls ---------------------------------------------------------------------------------------------


def _resolve_call_parameters(
    flattener: _Flattener,
) -> tuple[dict[str, str], list[_Open], dict[str, Variable]]:
    """Make call parameters registers where every access agrees on the parts, else local variables."""
    parts: dict[str, dict[int, int]] = {}
    mixed: set[str] = set()
    for block in flattener.blocks:
        for instruction in block.code:
            if instruction.modifiers[:1] != ("call",):
                continue
            address = _call_address(instruction)
            size = type_bytes(access_type(instruction))
            name = address.base.name if isinstance(address.base, Symbol) else ""
            for index in range(vector_length(instruction)):
                offset = address.offset + index * size
                if parts.setdefault(name, {}).setdefault(offset, size) != size or size < 2:
                    mixed.add(name)
    for name, sizes in parts.items():
        ordered = sorted(sizes.items())
        if any(offset + size > following for (offset, size), (following, _) in pairwise(ordered)):
            mixed.add(name)
    registers = dict(flattener.registers) | {CARRY: "pred"}
    for name, sizes in parts.items():
        if name not in mixed:
            registers.update({f"{name}+{offset}": f"b{size * 8}" for offset, size in sizes.items()})
    for block in flattener.blocks:
        block.code = [changed for old in block.code for changed in _resolved(old, mixed, parts)]
    slots = {
        name: Variable(name, "local", "b8", max(o + s for o, s in parts[name].items()), alignment=16) for name in mixed
    }
    return registers, flattener.blocks, slots


def _call_address(instruction: Instruction) -> Address:
    address = instruction.operands[0 if instruction.opcode == "st" else 1]
    assert isinstance(address, Address)
    return address


def _resolved(
    instruction: Instruction, mixed: set[str], parts: Mapping[str, Mapping[int, int]]
) -> Iterable[Instruction]:
    if instruction.opcode == COPY:
        yield from _copied(instruction, mixed, parts)
        return
    if instruction.modifiers[:1] != ("call",):
        yield instruction
        return
    address = _call_address(instruction)
    assert isinstance(address.base, Symbol)
    name = address.base.name
    if name in mixed:
        modifiers = tuple("local" if m.startswith("param") else m for m in instruction.modifiers[1:])
        yield replace(instruction, modifiers=modifiers)
        return
    store = instruction.opcode == "st"
    value = instruction.operands[1 if store else 0]
    values = value.elements if isinstance(value, Vector) else (value,)
    type_ = access_type(instruction)
    for index, one in enumerate(values):
        part = Register(f"{name}+{address.offset + index * type_bytes(type_)}")
        operands: tuple[Operand, ...] = (part, one) if store else (one, part)
        yield replace(instruction, opcode="mov", modifiers=(f"b{type_bytes(type_) * 8}",), operands=operands)


def _copied(instruction: Instruction, mixed: set[str], parts: Mapping[str, Mapping[int, int]]) -> Iterable[Instruction]:
    target, source = instruction.operands
    assert isinstance(target, Symbol) and isinstance(source, Symbol)
    read, written = parts.get(target.name, {}), parts.get(source.name, {})
    if {target.name, source.name} & mixed or any(written.get(offset) != size for offset, size in read.items()):
        yield instruction  # parts do not correspond: stands as an instruction that cannot be run
        return
    for offset, size in read.items():
        operands = (Register(f"{target.name}+{offset}"), Register(f"{source.name}+{offset}"))
        yield replace(instruction, opcode="mov", modifiers=(f"b{size * 8}",), operands=operands)


# ---- variables and blocks --------------------------------------------------------------------------------------------


def _align(offset: int, alignment: int) -> int:
    return -(-offset // alignment) * alignment


def _natural(variable: Variable) -> int:
    return variable.alignment or type_bytes(variable.type)


def _lay_out(variables: Mapping[str, Variable], minimum: int, gap: int) -> tuple[dict[str, Slot], int]:
    slots: dict[str, Slot] = {}
    offset = 0
    for name, variable in variables.items():
        offset = _align(offset, max(_natural(variable), 1))
        slots[name] = Slot(offset, variable.size)
        offset += variable.size + gap
    return slots, _align(offset, minimum)


def _lay_out_shared(module: Module, declared: Mapping[str, Variable]) -> tuple[dict[str, Slot], int]:
    """Lay out static shared variables with gaps between them; dynamic ones all start at the end (section 5.1.6)."""
    everything = {v.name: v for v in module.variables if v.space == "shared"} | dict(declared)
    static = {name: v for name, v in everything.items() if v.size}
    slots, size = _lay_out(static, 128, _RED_ZONE)
    slots.update({name: Slot(size, 0) for name, v in everything.items() if not v.size})
    return slots, size


def _finish(blocks: list[_Open]) -> tuple[Block, ...]:
    return tuple(Block(tuple(block.code), block.end or Jump(EXIT)) for block in blocks)
