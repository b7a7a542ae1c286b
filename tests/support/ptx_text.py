"""PTX of small kernels, compiled by NVRTC once per session, and parsed single statements."""

from __future__ import annotations

from functools import lru_cache

from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.model import Function, Instruction, Label, Module, Register, Symbol
from gpuemu_lsp.engine.ptx.traversal import flat_operands, instructions_of

HEADER = ".version 8.8\n.target sm_80\n.address_size 64\n"


@lru_cache(maxsize=64)
def compiled(code: str, *expressions: str, arch: str = "sm_80", optimize: bool = True) -> str:
    """Compile a text and return its PTX."""
    result = compile_source(CompileRequest("/kernels/t.cu", code, arch, expressions, optimize=optimize))
    assert result.artifact is not None, result.log
    return result.artifact.ptx


@lru_cache(maxsize=64)
def module_of(code: str, *expressions: str, arch: str = "sm_80", optimize: bool = True) -> Module:
    """Compile and parse."""
    return parse(compiled(code, *expressions, arch=arch, optimize=optimize))


def entry_of(module: Module) -> Function:
    """Return the only kernel of a module."""
    (entry,) = [function for function in module.functions.values() if function.is_entry]
    return entry


def body(text: str, declarations: str = "") -> Function:
    """Parse a kernel with the given instructions."""
    registers = ".reg .pred %p<8>; .reg .b16 %rs<8>; .reg .b32 %r<16>; .reg .f32 %f<16>; .reg .b64 %rd<16>;"
    module = parse(f"{HEADER}{declarations}\n.visible .entry k(.param .u64 k_param_0)\n{{\n{registers}\n{text}\n}}\n")
    return module.functions["k"]


def only(text: str, declarations: str = "") -> Instruction:
    """Parse one instruction."""
    (instruction,) = instructions_of(body(text, declarations))
    return instruction


def loose_ends(module: Module) -> set[str]:
    """Return all names that are used but not declared, as a parser that drops or misreads a declaration leaves them."""
    found: set[str] = set()
    globals_ = {variable.name for variable in module.variables} | set(module.functions)
    for function in module.functions.values():
        known = globals_ | set(function.prototypes) | set(function.branch_targets)
        known |= {variable.name for variable in (*function.variables, *function.params, *function.returns)}
        labels = {item.name for item in function.body or () if isinstance(item, Label)}
        known |= labels
        for targets in function.branch_targets.values():
            found |= set(targets) - labels
        for instruction in instructions_of(function):
            for operand in flat_operands(instruction.operands):
                if isinstance(operand, Symbol) and operand.name not in known:
                    found.add(f"{function.name}: {operand.name}")
                if isinstance(operand, Register) and not _is_register(operand.name, function):
                    found.add(f"{function.name}: {operand.name}")
            if instruction.guard is not None and instruction.guard.register.name not in function.registers:
                found.add(f"{function.name}: {instruction.guard.register.name}")
    return found


def _is_register(name: str, function: Function) -> bool:
    special = ("%tid", "%ntid", "%ctaid", "%nctaid", "%laneid", "%lanemask", "%envreg", "%clock", "%warpid", "%smid")
    return name == "_" or name in function.registers or name.startswith((*special, "%reserved_smem"))
