"""From a PTX function to a :class:`Program`: basic blocks, calls expanded, variables laid out in their windows."""

from __future__ import annotations

import math

from gpuemu_lsp.engine.emulator.frontend.address_spaces import lay_out_shared, lay_out_variables
from gpuemu_lsp.engine.emulator.frontend.builder import ProgramBuilder
from gpuemu_lsp.engine.emulator.frontend.call_parameters import resolve_call_parameters
from gpuemu_lsp.engine.emulator.frontend.inline import inline_function
from gpuemu_lsp.engine.emulator.ir.program import EXIT, BasicBlock, Jump, Program, RecursiveCall, Trap
from gpuemu_lsp.engine.ptx.model import Instruction, Module


def flatten(module: Module, entry: str) -> Program:
    """Return kernel ``entry`` of ``module`` as a flat program.

    What cannot be run (an indirect call, recursion without end) becomes a :class:`Trap` where it stands, so that only
    a kernel that reaches it is affected.

    Raises
    ------
    KeyError
        If ``entry`` is no kernel of the module.
    """
    function = module.functions[entry]
    if not function.is_entry or function.body is None:
        raise KeyError(entry)
    draft = ProgramBuilder(module)
    start = draft.new_block()
    clustered = function.directives.get("reqnctapercluster", ())
    if math.prod(clustered) > 1:
        reason = f"blocks in clusters of {' x '.join(map(str, clustered))} cannot be run"
        first = next((item for item in function.body if isinstance(item, Instruction)), None)
        if first is not None:
            draft.blocks[start].terminator = Trap(first, "engine/unsupported-instruction", reason)
    inline_function(draft, function, start, {}, None, ())
    codes = [block.code for block in draft.blocks]
    registers, codes, call_slots = resolve_call_parameters(codes, draft.registers)
    ends = [block.terminator or Jump(EXIT) for block in draft.blocks]
    shared, dynamic = lay_out_shared(module, draft.shared)
    local, local_bytes = lay_out_variables(draft.local | call_slots, 16, 0)
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
    )
