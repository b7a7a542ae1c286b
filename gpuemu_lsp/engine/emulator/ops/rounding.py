"""Arithmetic in the rounding modes ``.rn .rz .rm .rp`` (PTX ISA section 9.7.3).

LLVM's arithmetic rounds to nearest even. The directed modes are implemented in three ways, all correctly rounded:

- AVX-512 instructions with an embedded rounding mode, which exist for 512-bit vectors and for scalars;
- a function that switches the CPU's rounding mode (MXCSR): any host, any operation, about 40 cycles per call. It is
  not inlined, since LLVM may move ordinary arithmetic across a change of the mode;
- for f32 fma, of which there is one in every ``expf``: f64 arithmetic, and one step to the neighbouring float.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.ops import ieee
from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value, count_of, element, integer_of, mangled
from gpuemu_lsp.engine.emulator.ops.types import DOUBLE, FLOAT, I16, I32, I64

MODES = ("rn", "rz", "rm", "rp")

# _MM_FROUND_NO_EXC with the mode, as the x86 intrinsics take it.
_EMBEDDED = {"rn": 8, "rm": 9, "rp": 10, "rz": 11}
# llvm.set.rounding's numbering.
_FLT_ROUNDS = {"rz": 0, "rn": 1, "rp": 2, "rm": 3}
_SUFFIX = {FLOAT: "ps", DOUBLE: "pd"}
_NATURAL = {FLOAT: 16, DOUBLE: 8}
_EMBEDDED_NAMES = {"fadd": "add", "fsub": "sub", "fmul": "mul", "fdiv": "div", "fma": "vfmadd", "sqrt": "sqrt"}


class _Attributes(ir.values.FunctionAttributes):  # type: ignore[misc]
    """Function attributes including ``strictfp``, which llvmlite does not list."""

    _known = ir.values.FunctionAttributes._known | {"strictfp"}


def arithmetic(lanes: LaneBuilder, operation: str, mode: str, *operands: Value) -> Value:
    """Return ``fadd``, ``fsub``, ``fmul``, ``fdiv``, ``fma`` or ``sqrt`` of f32 or f64 values, rounded in ``mode``."""
    if mode == "rn":
        if operation in ("fma", "sqrt"):
            return lanes.call(operation, *operands)
        return getattr(lanes.builder, operation)(*operands)
    if lanes.target.avx512 and (lanes.count is not None or operation == "fma"):
        return _embedded(lanes, operation, mode, operands)
    if operation == "fma" and element(operands[0]) is FLOAT:
        return _fma_through_double(lanes, mode, *operands)
    return _switched(lanes, operation, mode, operands, element(operands[0]))


def convert(lanes: LaneBuilder, operation: str, mode: str, value: Value, scalar: ir.Type) -> Value:
    """Return ``fptrunc``, ``sitofp`` or ``uitofp`` of ``value`` to ``scalar`` (f32 or f64), rounded in ``mode``."""
    if mode == "rn":
        return getattr(lanes.builder, operation)(value, lanes.type(scalar))
    if operation == "uitofp":
        return _from_unsigned(lanes, mode, value, scalar)
    return _switched(lanes, operation, mode, (value,), scalar)


def _from_unsigned(lanes: LaneBuilder, mode: str, value: Value, scalar: ir.Type) -> Value:
    """Convert an unsigned integer by signed conversions.

    Where the CPU has no unsigned conversion, LLVM's expansion is wrong in directed modes: 0 rounded down becomes -0.
    """
    builder = lanes.builder
    if element(value).width < 64:
        return _switched(lanes, "sitofp", mode, (lanes.resize(value, I64),), scalar)
    one = lanes.integer(I64, 1)
    large = builder.icmp_signed("<", value, lanes.integer(I64, 0))
    # Halved, with the discarded bit or-ed into the last one (sticky): that is far below the last place of the result,
    # and rounds alike.
    half = builder.or_(builder.lshr(value, one), builder.and_(value, one))
    converted = _switched(lanes, "sitofp", mode, (lanes.select(large, half, value),), scalar)
    return lanes.select(large, builder.fadd(converted, converted), converted)


def step_to(lanes: LaneBuilder, rounded: Value, above: Value, below: Value, mode: str) -> Value:
    """Correct a float (or a bf16 pattern) that was rounded to nearest, so that it is rounded in ``mode``.

    ``above`` and ``below`` are predicates: ``rounded`` is above or below the exact value.
    """
    builder = lanes.builder
    scalar = element(rounded)
    integer = I16 if scalar is I16 else integer_of(scalar)
    pattern = lanes.bits(rounded, integer)
    zero, one, minus = (lanes.integer(integer, number) for number in (0, 1, -1))
    negative = builder.icmp_signed("<", pattern, zero)
    # Floats are sign and magnitude: the next pattern is farther from zero. A step towards zero never starts at zero.
    towards = lanes.select(negative, one, minus)
    step = zero
    if mode in ("rm", "rz"):
        wrong = above if mode == "rm" else builder.and_(above, lanes.inverted(negative))
        step = lanes.select(wrong, towards, step)
    if mode in ("rp", "rz"):
        wrong = below if mode == "rp" else builder.and_(below, negative)
        step = lanes.select(wrong, builder.sub(zero, towards), step)
    return lanes.bits(builder.add(pattern, step), element(rounded))


def _embedded(lanes: LaneBuilder, operation: str, mode: str, operands: Sequence[Value]) -> Value:
    scalar = element(operands[0])
    rounding = ir.Constant(I32, _EMBEDDED[mode])
    if lanes.count is None:
        name = f"llvm.x86.avx512.{_EMBEDDED_NAMES[operation]}.{mangled(scalar)}"
        return lanes.call_exact(name, scalar, (*operands, rounding))
    natural = _NATURAL[scalar]
    name = f"llvm.x86.avx512.{_EMBEDDED_NAMES[operation]}.{_SUFFIX[scalar]}.512"
    wide = LaneBuilder(lanes.builder, natural, lanes.target)
    pieces = []
    for start in range(0, lanes.count, natural):
        chosen = [start + lane if start + lane < lanes.count else start for lane in range(natural)]
        parts = [_shuffle(lanes.builder, operand, operand, chosen) for operand in operands]
        pieces.append(lanes.call_exact(name, wide.type(scalar), (*parts, rounding)))
    while len(pieces) > 1:
        width = pieces[0].type.count
        pieces = [
            _shuffle(lanes.builder, low, high, range(2 * width))
            for low, high in zip(pieces[::2], pieces[1::2], strict=True)
        ]
    return _shuffle(lanes.builder, pieces[0], pieces[0], range(lanes.count))


def _shuffle(builder: ir.IRBuilder, left: Value, right: Value, chosen: Sequence[int]) -> Value:
    if list(chosen) == list(range(count_of(left) or 1)):
        return left
    return builder.shuffle_vector(left, right, ir.Constant(ir.VectorType(I32, len(chosen)), list(chosen)))


def _fma_through_double(lanes: LaneBuilder, mode: str, left: Value, right: Value, addend: Value) -> Value:
    """Return an f32 fma in a directed mode: the product is exact in f64, and so is the error of the sum (TwoSum)."""
    builder = lanes.builder
    product = builder.fmul(lanes.fpext(left, DOUBLE), lanes.fpext(right, DOUBLE))
    addend = lanes.fpext(addend, DOUBLE)
    total = builder.fadd(product, addend)
    error = ieee.sum_error(lanes, product, addend, total)
    odd = ieee.to_odd(lanes, total, error)
    rounded = lanes.fptrunc(odd, FLOAT)
    back = lanes.fpext(rounded, DOUBLE)
    result = step_to(lanes, rounded, lanes.fcmp(">", back, odd), lanes.fcmp("<", back, odd), mode)
    if mode != "rm":
        return result
    # An exact zero sum of opposite signs is -0 when rounding down (IEEE 754, 6.3), +0 in all other modes.
    signs = builder.or_(lanes.bits(product, I64), lanes.bits(addend, I64))
    negative = builder.icmp_signed("<", signs, lanes.integer(I64, 0))
    minus_zero = builder.and_(lanes.fcmp("==", total, lanes.number(DOUBLE, 0.0)), negative)
    return lanes.select(minus_zero, lanes.number(FLOAT, -0.0), result)


def _switched(lanes: LaneBuilder, operation: str, mode: str, operands: Sequence[Value], scalar: ir.Type) -> Value:
    result = lanes.type(scalar)

    def body(function: ir.Function) -> None:
        function.attributes = _Attributes(("noinline", "nounwind", "strictfp"))
        builder = ir.IRBuilder(function.append_basic_block())
        set_rounding = LaneBuilder(builder, None, lanes.target)
        set_rounding.call_exact("llvm.set.rounding", ir.VoidType(), (ir.Constant(I32, _FLT_ROUNDS[mode]),))
        types = [mangled(result)]
        if operation in ("fptrunc", "sitofp", "uitofp"):
            types.append(mangled(operands[0].type))
        name = f"llvm.experimental.constrained.{operation}.{'.'.join(types)}"
        module = function.module
        words = [ir.MetaDataString(module, "round.dynamic"), ir.MetaDataString(module, "fpexcept.strict")]
        value = set_rounding.call_exact(name, result, (*function.args, *words))
        set_rounding.call_exact("llvm.set.rounding", ir.VoidType(), (ir.Constant(I32, _FLT_ROUNDS["rn"]),))
        builder.ret(value)

    return lanes.helper(f"{operation}.{mode}.{mangled(scalar)}", result, operands, body)
