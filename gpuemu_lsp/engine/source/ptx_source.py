"""A .ptx file as a :class:`SourceFile`: its entries as kernels, with the parameters that their code shows."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from gpuemu_lsp.engine.findings import Range
from gpuemu_lsp.engine.ptx import PtxError, parse
from gpuemu_lsp.engine.ptx.model import Address, Function, Instruction, Operand, Register, Symbol, Variable
from gpuemu_lsp.engine.ptx.traversal import flat_operands, instructions_of
from gpuemu_lsp.engine.source.model import KernelDecl, Param, SourceFile

SUFFIX = ".ptx"

_ENTRY = re.compile(r"^[^/\n]*\.entry\s+(?P<name>[\w$%]+)", re.MULTILINE)
_C_TYPES = {
    "f16": "__half", "bf16": "__nv_bfloat16", "f32": "float", "f64": "double",
    "s8": "signed char", "u8": "unsigned char", "b8": "unsigned char",
    "s16": "short", "u16": "unsigned short", "b16": "unsigned short",
    "s32": "int", "u32": "unsigned int", "b32": "unsigned int",
    "s64": "long long", "u64": "unsigned long long", "b64": "unsigned long long",
}  # fmt: skip
_PASSES_ON = frozenset({"mov", "cvta", "add", "sub", "mad", "selp", "ld"})
"""Opcodes whose result is an address if an operand is one; ``ld`` of a parameter."""
_READS = frozenset({"ld", "ldu"})
_ACCESSES = _READS | {"st", "atom", "red"}


def read_ptx(path: str, text: str) -> SourceFile:
    """Read a PTX module, which may be half written: then its entries have no parameters."""
    try:
        module = parse(text)
    except PtxError:
        kernels = tuple(_declared(text, match, ()) for match in _ENTRY.finditer(text))
        return SourceFile(path, text, kernels, (), {}, has_errors=True)
    entries = {name: function for name, function in module.functions.items() if function.is_entry}
    kernels = tuple(
        _declared(text, match, _params(entries[match["name"]], match["name"], _range(text, match)))
        for match in _ENTRY.finditer(text)
        if match["name"] in entries and entries[match["name"]].body is not None
    )
    return SourceFile(path, text, kernels, (), {})


def _declared(text: str, match: re.Match[str], params: tuple[Param, ...]) -> KernelDecl:
    name = match["name"]
    end = text.find("\n}", match.start())
    last = text.count("\n", 0, end + 1 if end >= 0 else len(text))
    span = _range(text, match)
    whole = Range.of(text.count("\n", 0, match.start()), 0, last, 1)
    return KernelDecl(name, name, (), params, span, whole, extern_c=True)


def _range(text: str, match: re.Match[str]) -> Range:
    line, start = text.count("\n", 0, match.start("name")), text.rfind("\n", 0, match.start("name")) + 1
    return Range.of(line, match.start("name") - start, line, match.end("name") - start)


def _params(function: Function, name: str, span: Range) -> tuple[Param, ...]:
    accesses, values = _accesses(function), _value_types(function)
    return tuple(
        _param(variable, variable.name.removeprefix(f"{name}_"), accesses.get(variable.name, []), values, span)
        for variable in function.params
    )


def _param(variable: Variable, name: str, accesses: list[Instruction], values: Mapping[str, str], span: Range) -> Param:
    """Return a parameter: a pointer to what is accessed at its address, else a number or a struct by value."""
    if accesses:
        types = [kind for access in accesses for kind in _element_types(access, values)]
        known = next((kind for kind in types if kind in _C_TYPES and not _is_untyped(kind)), types[0])
        const = all(access.opcode in _READS for access in accesses)
        return Param(name, _C_TYPES.get(known, "unsigned int"), True, const, span, 1)
    if variable.is_array or variable.type not in _C_TYPES:
        return Param(name, f"struct of {variable.size} bytes", False, False, span)
    # Compilers give integers the type of their size only; sizes and counts are the usual ones.
    kind = {"u32": "s32", "b32": "s32", "u64": "s64", "b64": "s64"}.get(variable.type, variable.type)
    return Param(name, _C_TYPES[kind], False, False, span)


def _is_untyped(kind: str) -> bool:
    return kind in ("b8", "b16", "b32", "b64")


def _element_types(access: Instruction, values: Mapping[str, str]) -> Iterator[str]:
    """Yield the types that an access of untyped bits may have: those of the values in its registers, then its own."""
    kind = access.modifiers[-1]
    if _is_untyped(kind):
        data = [one for one in access.operands if not isinstance(one, Address)]
        for name in _names(data):
            if values.get(name, kind)[1:] == kind[1:]:
                yield values.get(name, kind)
    yield kind


def _value_types(function: Function) -> dict[str, str]:
    """Return the types of values in registers, by the instructions that compute them and compute with them."""
    types: dict[str, str] = {}
    copies: list[list[str]] = []
    for instruction in instructions_of(function):
        kind = instruction.modifiers[-1] if instruction.modifiers else ""
        if instruction.opcode == "mov":
            copies.append(list(_names(instruction.operands)))
        elif instruction.opcode == "cvt":
            target, source = instruction.operands[:1], instruction.operands[1:]
            types.update(dict.fromkeys(_names(target), instruction.modifiers[-2]))
            types.update(dict.fromkeys(_names(source), kind))
        elif kind in _C_TYPES and not _is_untyped(kind) and instruction.opcode not in _ACCESSES:
            operands = instruction.operands[1:] if instruction.opcode == "setp" else instruction.operands
            types.update(dict.fromkeys(_names(operands), kind))
    for names in copies:
        known = next((types[name] for name in names if name in types), None)
        if known is not None:
            types.update({name: known for name in names if name not in types})
    return types


def _accesses(function: Function) -> dict[str, list[Instruction]]:
    """Return the accesses at addresses that are computed from a parameter, by its name."""
    origins: dict[str, set[str]] = {variable.name: {variable.name} for variable in function.params}
    found: dict[str, list[Instruction]] = {}
    instructions = tuple(instructions_of(function))
    # Loops move a pointer, so that a register may have its origin from below: a few passes suffice for what is written.
    for _ in range(3):
        for instruction in instructions:
            if instruction.opcode in _PASSES_ON and instruction.operands:
                target, *sources = instruction.operands
                reads_memory = instruction.opcode == "ld" and "param" not in instruction.modifiers
                if isinstance(target, Register) and not reads_memory:
                    names = set().union(*(origins.get(one, set()) for one in _names(sources)))
                    origins.setdefault(target.name, set()).update(names)
    for instruction in instructions:
        if instruction.opcode in _ACCESSES and "param" not in instruction.modifiers:
            for address in (one for one in instruction.operands if isinstance(one, Address)):
                for origin in origins.get(next(_names([address]), ""), set()):
                    found.setdefault(origin, []).append(instruction)
    return found


def _names(operands: Sequence[Operand]) -> Iterator[str]:
    """Yield the names of registers and variables in operands."""
    return (one.name for one in flat_operands(tuple(operands)) if isinstance(one, Register | Symbol))
