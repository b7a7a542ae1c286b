"""Elementwise instructions, executed on scalars or vectors as the shape of the result requires."""

from __future__ import annotations

import re

from llvmlite import ir

from gpuemu_lsp.engine.emulator import ops
from gpuemu_lsp.engine.emulator.abi.field_access import store_field
from gpuemu_lsp.engine.emulator.abi.states import Status
from gpuemu_lsp.engine.emulator.abi.structs import Warp
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.special_registers import SPECIAL_REGISTERS
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.operands import CARRY, flattened, register_name, split_operands, widened
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I64, Value, i32
from gpuemu_lsp.engine.ptx.model import Instruction, Negated, Operand, Register


def supported(instruction: Instruction) -> bool:
    """Return whether the instruction is elementwise and supported, with all its special registers."""
    if not ops.supports(instruction):
        return False
    return all(_known(operand) for operand in flattened(split_operands(instruction)[1]))


def _known(operand: Operand) -> bool:
    if isinstance(operand, Negated):
        operand = operand.register
    name = operand.name if isinstance(operand, Register) else ""
    return not _is_special(name) or name in SPECIAL_REGISTERS


def _is_special(name: str) -> bool:
    return _SPECIAL_NAMES.fullmatch(name) is not None


# PTX ISA section 10. All of them: a special register that is unknown here must not be taken for one of the program,
# whose registers may have names that begin like one, such as %tidX.
_SPECIAL_NAMES = re.compile(
    r"%(?:(?:tid|ntid|ctaid|nctaid|clusterid|nclusterid|cluster_ctaid|cluster_nctaid)(?:\.[xyzw])?"
    r"|laneid|warpid|nwarpid|smid|nsmid|gridid|is_explicit_cluster|cluster_ctarank|cluster_nctarank"
    r"|lanemask_(?:eq|le|lt|ge|gt)|clock(?:_hi|64)?|globaltimer(?:_lo|_hi)?|pm\d(?:_64)?|envreg\d+"
    r"|reserved_smem_offset_(?:begin|end|cap|\d)|(?:total|aggr|dynamic)_smem_size|current_graph_exec)"
)


def emit_arithmetic(e: Emitter, instruction: Instruction) -> None:
    """Write one elementwise instruction that :func:`supported` accepts."""
    signature = ops.operand_types(instruction)
    written, read = split_operands(instruction)
    sources = list(flattened(read))
    names = [register_name(operand) for operand in flattened(written)]
    # The condition code CC.CF (add.cc, addc, ...) is a register like others here, with a value in every lane.
    if signature.reads_carry:
        sources.append(Register(CARRY))
    if signature.writes_carry:
        names.append(CARRY)
    real = [name for name in names if name != "_"]
    # No result is used, and elementwise instructions have no other effect.
    if not real:
        return
    shapes = [e.unit.divergence.shapes[name] for name in real]
    varying = any(shape.varying for shape in shapes)
    parts = e.parts if varying or any(shape.per_part for shape in shapes) else 1
    # With several results (a carry, or two elements) the most general shape decides, and `write` converts the others.
    if not varying and any(shape.step for shape in shapes):
        _check_widening(e, instruction, parts)
    # The same emitter of ops for scalars and vectors: an affine result needs one scalar operation per warp.
    for part in range(parts):
        values = [
            e.vector_operand(operand, type_, part) if varying else e.scalar_operand_for(operand, type_, part, parts)
            for operand, type_ in zip(sources, signature.sources, strict=True)
        ]
        results = ops.emit(e.builder, instruction, values)
        for name, value, type_ in zip(names, results, signature.destinations, strict=True):
            e.write(name, part, value, type_)


def _check_widening(e: Emitter, instruction: Instruction, parts: int) -> None:
    """Ensure at run time that no lane of an affine 32-bit value wraps where it is widened to 64 bits.

    Only then is the widened value affine, ``extend(base + i * step) == extend(base) + i * step``, as the analysis
    assumes: kernels compute indices in 32 bits and addresses in 64, and hardly ever wrap. Where one does, the launch
    ends with ``ASSUMPTION_FAILED`` and starts again, in code in which this register is varying.
    """
    narrow, sources = widened(instruction)
    b = e.builder
    for operand in sources:
        shape = e.shape(operand)
        if not shape.step:
            continue
        for part in range(parts if shape.per_part else 1):
            # Lanes lie between the first and the last, so that comparing the last one is enough.
            base = e.scalar_operand(operand, narrow, part)
            extent = shape.step * ((e.lanes if shape.per_part else WARP_SIZE) - 1)
            extend = b.sext if narrow.startswith("s") else b.zext
            last = extend(b.add(base, i32(extent)), I64)
            assume(e, b.icmp_signed("==", last, b.add(extend(base, I64), t.i64(extent))))


def assume(e: Emitter, condition: Value) -> None:
    """Leave the warp function with ``Status.ASSUMPTION_FAILED`` unless ``condition`` holds."""
    b = e.builder
    wrong, right = e.branch_unlikely(b.not_(condition), "assume")
    b.position_at_end(wrong)
    store_field(b, i32(e.site), e.context, Warp.STOP_SITE)
    b.ret(i32(Status.ASSUMPTION_FAILED))
    b.position_at_end(right)


def predicate_parts(e: Emitter, register: Register, negated: bool) -> list[Value]:
    """Return a predicate as one vector of i1 per part."""
    values = [e.vector_operand(register, "pred", part) for part in range(e.parts)]
    return [e.builder.not_(value) for value in values] if negated else values


def predicate_scalar(e: Emitter, register: Register, negated: bool) -> Value:
    """Return a uniform predicate as an i1."""
    value = e.scalar_operand(register, "pred", 0)
    return e.builder.not_(value) if negated else value


__all__ = ["assume", "emit_arithmetic", "ir", "predicate_parts", "predicate_scalar", "supported"]
