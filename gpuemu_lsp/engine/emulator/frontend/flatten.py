"""Flattening of a kernel to a :class:`Program`: basic blocks, calls inlined, variables placed in their windows."""

from __future__ import annotations

import math

from gpuemu_lsp.engine.emulator.frontend.address_spaces import lay_out_shared, lay_out_variables
from gpuemu_lsp.engine.emulator.frontend.builder import ProgramBuilder
from gpuemu_lsp.engine.emulator.frontend.call_parameters import resolve_call_parameters
from gpuemu_lsp.engine.emulator.frontend.cluster_addresses import with_cluster_addresses
from gpuemu_lsp.engine.emulator.frontend.group_registers import with_register_faults
from gpuemu_lsp.engine.emulator.frontend.inline import inline_function
from gpuemu_lsp.engine.emulator.frontend.sub_word_atomics import with_element_addresses
from gpuemu_lsp.engine.emulator.frontend.tensor_loads import with_waits_of_reads
from gpuemu_lsp.engine.emulator.ir.program import EXIT, BasicBlock, Jump, Program, RecursiveCall
from gpuemu_lsp.engine.ptx.model import Function, Module


def flatten(module: Module, entry: str) -> Program:
    """Return kernel ``entry`` of ``module`` as a flat program.

    Calls and instructions that cannot be run become a :class:`Trap`, which affects only threads that reach it.

    Raises
    ------
    KeyError
        If ``entry`` is not a kernel of the module.
    ProgramSizeError
        If it is too large with its calls inlined.
    """
    function = module.functions[entry]
    if not function.is_entry or function.body is None:
        raise KeyError(entry)
    builder = ProgramBuilder(module)
    builder.require_size(function)
    start = builder.new_block()
    inline_function(builder, function, start, {}, None, ())
    codes = [block.code for block in builder.blocks]
    # Only now are all accesses to each call parameter known.
    registers, codes, call_slots = resolve_call_parameters(codes, builder.registers)
    codes = with_element_addresses(codes, registers)
    codes = with_waits_of_reads(with_cluster_addresses(codes, registers))
    ends = [block.terminator or Jump(EXIT) for block in builder.blocks]
    codes = with_register_faults(codes, ends)
    shared, dynamic = lay_out_shared(module, entry, builder.shared)
    local, local_bytes = lay_out_variables(builder.local | call_slots, 16, 0)
    params, param_bytes = lay_out_variables({p.name: p for p in function.params}, 8, 0)
    return Program(
        name=entry,
        blocks=tuple(BasicBlock(tuple(code), end) for code, end in zip(codes, ends, strict=True)),
        registers=registers,
        params=params,
        param_bytes=param_bytes,
        shared=shared,
        dynamic_shared=dynamic,
        local=local,
        local_bytes=local_bytes,
        functions=tuple(module.functions),
        variables={v.name: v for v in module.variables if v.space in ("global", "const")},
        recursive=any(isinstance(end, RecursiveCall) for end in ends),
        max_threads=tuple(function.directives.get("reqntid", ())) or tuple(function.directives.get("maxntid", ())),
        required_cluster=tuple(function.directives.get("reqnctapercluster", ())),
        entry_registers=_entry_registers(function),
        calls=builder.calls,
    )


_REGISTERS_OF_SM = 65536


def _entry_registers(function: Function) -> int:
    """Return the registers of a thread at the start of a kernel that bounds them, 0 if it does not.

    What ptxas does: ``.maxnreg``, or the most that ``.minnctapersm`` blocks of the largest size have, in eights.
    """
    limit = function.directives.get("maxnreg")
    if limit:
        return int(limit[0])
    dims = function.directives.get("reqntid") or function.directives.get("maxntid")
    blocks = function.directives.get("minnctapersm")
    if not dims or not blocks or not all((*dims, *blocks)):
        return 0
    return min(_REGISTERS_OF_SM // (math.prod(dims) * blocks[0]) // 8 * 8, 256)
