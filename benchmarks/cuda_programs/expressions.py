"""Random expressions without side effects and without undefined behaviour.

Arithmetic on signed integers is done in the unsigned type, shift counts are masked, divisors guarded, and conversions
of floats to integers saturate (``__float2int_rz``), because a C++ cast out of range is undefined. Of two zeros
``fminf`` may return either, so that a zero is added to its result.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from benchmarks.cuda_programs.types import (
    BFLOAT,
    DOUBLE,
    FLOAT,
    HALF,
    INT,
    INTEGERS,
    LONG,
    TYPES,
    UNSIGNED,
    UNSIGNED_LONG,
    ScalarType,
    literal,
)


@dataclass(frozen=True, slots=True)
class Variable:
    """A name in scope; an expression such as ``p->a`` or ``c[1]`` counts as one."""

    name: str
    type: ScalarType
    writable: bool = True


@dataclass(frozen=True, slots=True)
class Callee:
    """A function or operator that programs call; ``form`` has a ``{}`` per argument."""

    form: str
    result: ScalarType
    arguments: tuple[ScalarType, ...]


def _calls(result: ScalarType, arguments: Sequence[ScalarType], names: str, form: str = "") -> list[Callee]:
    arity = ", ".join(["{}"] * len(arguments))
    return [
        Callee(form.format(name) if form else f"{name}({arity})", result, tuple(arguments)) for name in names.split()
    ]


_U, _I, _L, _UL, _F, _D, _H, _B = UNSIGNED, INT, LONG, UNSIGNED_LONG, FLOAT, DOUBLE, HALF, BFLOAT
_MODES = ("rn", "rz", "ru", "rd")


def _modes(result: ScalarType, arguments: Sequence[ScalarType], names: str) -> list[Callee]:
    return [one for mode in _MODES for one in _calls(result, arguments, " ".join(f"{n}_{mode}" for n in names.split()))]


_COMMON = [
    *_calls(_I, [_U], "__popc"),
    *_calls(_I, [_I], "__clz __ffs"),
    *_calls(_I, [_UL], "__popcll"),
    *_calls(_I, [_L], "__clzll __ffsll"),
    *_calls(_U, [_U], "__brev __vneg4"),
    *_calls(_UL, [_UL], "__brevll"),
    *_calls(_U, [_U, _U, _U], "__byte_perm __funnelshift_l __funnelshift_r __funnelshift_lc __funnelshift_rc"),
    *_calls(_U, [_U, _U, _U], "__usad __dp4a"),
    *_calls(_U, [_U, _U], "__umulhi __umul24 __uhadd __urhadd min max"),
    *_calls(_I, [_I, _I], "__mulhi __mul24 __hadd __rhadd min max"),
    *_calls(_L, [_L, _L], "__mul64hi min max"),
    *_calls(_UL, [_UL, _UL], "__umul64hi min max"),
    *_calls(_U, [_I, _I, _U], "__sad"),
    *_calls(_I, [_I, _I, _I], "__dp4a __dp2a_lo __dp2a_hi"),
    *_calls(
        _U,
        [_U, _U],
        "__vadd4 __vsub4 __vaddss4 __vsubus4 __vabsdiffu4 __vabsdiffs4 __vavgu4 __vmaxs4 __vminu4 __vcmpgtu4 __vseteq4 "
        "__vadd2 __vsubss2 __vmaxu2 __vmins2 __vsads4",
    ),
    *_calls(_F, [_F], "fabsf floorf ceilf truncf rintf roundf __saturatef"),
    *_calls(_D, [_D], "fabs floor ceil trunc rint"),
    *_calls(_F, [_F, _F, _F], "fmaf"),
    *_calls(_D, [_D, _D, _D], "fma"),
    *_calls(_F, [_F, _F], "fminf fmaxf", "({}({{}}, {{}}) + 0.0f)"),
    *_calls(_D, [_D, _D], "fmin fmax", "({}({{}}, {{}}) + 0.0)"),
    *_calls(_F, [_F], "sqrtf"),
    *_calls(_D, [_D], "sqrt"),
    *_modes(_F, [_F, _F], "__fadd __fsub __fmul __fdiv"),
    *_modes(_F, [_F, _F, _F], "__fmaf"),
    *_modes(_F, [_F], "__frcp __fsqrt"),
    *_modes(_D, [_D, _D], "__dadd __dsub __dmul"),
    *_modes(_D, [_D, _D, _D], "__fma"),
    *_modes(_F, [_I], "__int2float"),
    *_modes(_F, [_U], "__uint2float"),
    *_modes(_F, [_L], "__ll2float"),
    *_modes(_D, [_L], "__ll2double"),
    *_modes(_F, [_D], "__double2float"),
    *_modes(_I, [_F], "__float2int"),
    *_modes(_U, [_F], "__float2uint"),
    *_modes(_L, [_F], "__float2ll"),
    *_modes(_UL, [_F], "__float2ull"),
    *_modes(_I, [_D], "__double2int"),
    *_modes(_U, [_D], "__double2uint"),
    *_modes(_L, [_D], "__double2ll"),
    *_modes(_UL, [_D], "__double2ull"),
    *_modes(_H, [_F], "__float2half"),
    *_modes(_B, [_F], "__float2bfloat16"),
    *_modes(_H, [_I], "__int2half"),
    *_modes(_H, [_U], "__uint2half"),
    *_modes(_I, [_H], "__half2int"),
    *_modes(_U, [_H], "__half2uint"),
    *_modes(_L, [_H], "__half2ll"),
    *_modes(INTEGERS[2], [_H], "__half2short"),
    *_modes(_I, [_B], "__bfloat162int"),
    *_modes(_B, [_I], "__int2bfloat16"),
    *_calls(_F, [_H], "__half2float"),
    *_calls(_F, [_B], "__bfloat162float"),
    *_calls(_H, [_D], "__double2half"),
    *_calls(_I, [_F], "bits", "(int){}({{}})"),
    *_calls(_L, [_D], "bits", "(long long){}({{}})"),
    *_calls(INTEGERS[3], [_H], "bits", "(unsigned short){}({{}})"),
    *_calls(INTEGERS[3], [_B], "bits", "(unsigned short){}({{}})"),
    *_calls(_I, [_D], "__double2hiint", "(int)(bits({{}}) >> 32)"),
    *_calls(_F, [_U], "__uint_as_float"),
    *_calls(_H, [_H, _H], "__hadd_sat"),
]  # fmt: skip
_NARROW = [
    one
    for t in (_H, _B)
    for one in (
        *_calls(t, [t, t], "__hadd __hsub __hmul __hmin __hmax __hmin_nan __hmax_nan"),
        *_calls(t, [t, t, t], "__hfma __hfma_relu"),
        *_calls(t, [t], "__hneg __habs hfloor hceil htrunc hrint"),
        *_calls(_I, [t, t], "__hlt __hle __heq __hne __hneu __hgtu", "(int){}({{}}, {{}})"),
    )
]
_PAIRS = [
    Callee(f"{part}({op})", _H, (_H,) * count)
    for part in ("__low2half", "__high2half")
    for op, count in (
        ("__hadd2(__halves2half2({}, {}), __halves2half2({}, {}))", 4),
        ("__hmul2(__halves2half2({}, {}), __halves2half2({}, {}))", 4),
        ("__hmax2(__halves2half2({}, {}), __halves2half2({}, {}))", 4),
    )
]
INTRINSICS = (*_COMMON, *_NARROW, *_PAIRS)


@dataclass(slots=True)
class Scope:
    """Names that expressions may use: variables, arrays of a power of two of elements, and functions."""

    variables: list[Variable] = field(default_factory=list)
    arrays: list[tuple[str, ScalarType, int]] = field(default_factory=list)
    callees: list[Callee] = field(default_factory=list)

    def inner(self) -> Scope:
        """Return the scope of a block inside this one."""
        return Scope(list(self.variables), list(self.arrays), self.callees)


class ExpressionWriter:
    """Writes random expressions of a given type."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._by_result: dict[ScalarType, list[Callee]] = {}
        for one in INTRINSICS:
            self._by_result.setdefault(one.result, []).append(one)

    def of(self, wanted: ScalarType, scope: Scope, depth: int) -> str:
        """Return an expression of type ``wanted``, of at most ``depth`` nested operations."""
        rng = self._rng
        if depth <= 0:
            return self._leaf(wanted, scope)
        choice = rng.random()
        if choice < 0.12:
            return self._leaf(wanted, scope)
        if choice < 0.22:
            condition = self.condition(scope, depth - 1)
            return f"({condition} ? {self.of(wanted, scope, depth - 1)} : {self.of(wanted, scope, depth - 1)})"
        if choice < 0.5:
            own = [one for one in scope.callees if one.result == wanted]
            known = self._by_result.get(wanted, [])
            if own and (not known or rng.random() < 0.4):
                return self._call(rng.choice(own), scope, depth)
            if known:
                return self._call(rng.choice(known), scope, depth)
        if choice < 0.6:
            return self._converted(wanted, scope, depth)
        return self._operation(wanted, scope, depth)

    def condition(self, scope: Scope, depth: int) -> str:
        """Return a boolean expression."""
        rng = self._rng
        if depth > 0 and rng.random() < 0.2:
            one, other = self.condition(scope, depth - 1), self.condition(scope, depth - 1)
            return rng.choice([f"({one} && {other})", f"({one} || {other})", f"!{one}"])
        kind = rng.choice([t for t in TYPES if t.kind not in "hb"])
        if kind.is_integer and rng.random() < 0.3:
            return f"(({self.of(UNSIGNED, scope, depth)} & {rng.choice([1, 3, 6, 16])}u) != 0)"
        operator = rng.choice(["<", "<=", "==", "!=", ">", ">="])
        return f"({self.of(kind, scope, depth)} {operator} {self.of(kind, scope, depth)})"

    def index(self, scope: Scope, size: int, depth: int) -> str:
        """Return an index below ``size``, a power of two."""
        return f"{self.of(UNSIGNED, scope, depth)} & {size - 1}u"

    def _leaf(self, wanted: ScalarType, scope: Scope) -> str:
        rng = self._rng
        own = [v.name for v in scope.variables if v.type == wanted]
        arrays = [(name, size) for name, kind, size in scope.arrays if kind == wanted]
        if arrays and rng.random() < 0.3:
            name, size = rng.choice(arrays)
            return f"{name}[{self.index(scope, size, 0)}]"
        if own and rng.random() < 0.8:
            return rng.choice(own)
        others = [v for v in scope.variables if v.type.is_integer]
        if wanted.is_integer and others and rng.random() < 0.6:
            return f"({wanted.name}){rng.choice(others).name}"
        if others and wanted.kind in "fd" and rng.random() < 0.5:
            return f"({wanted.name}){rng.choice(others).name}"
        return literal(rng, wanted)

    def _call(self, one: Callee, scope: Scope, depth: int) -> str:
        return one.form.format(*(self.of(kind, scope, depth - 1) for kind in one.arguments))

    def _converted(self, wanted: ScalarType, scope: Scope, depth: int) -> str:
        rng = self._rng
        if wanted.is_integer:
            return f"({wanted.name}){self.of(rng.choice(INTEGERS), scope, depth - 1)}"
        if wanted.kind == "f":
            return f"(float){self.of(rng.choice([*INTEGERS, DOUBLE]), scope, depth - 1)}"
        if wanted.kind == "d":
            return f"(double){self.of(rng.choice([*INTEGERS, FLOAT]), scope, depth - 1)}"
        convert = "__float2half_rn" if wanted.kind == "h" else "__float2bfloat16_rn"
        return f"{convert}({self.of(FLOAT, scope, depth - 1)})"

    def _operation(self, wanted: ScalarType, scope: Scope, depth: int) -> str:
        rng = self._rng
        part: Callable[[], str] = lambda: self.of(wanted, scope, depth - 1)  # noqa: E731
        if not wanted.is_integer:
            if wanted.kind in "hb":
                return self._call(rng.choice(self._by_result[wanted]), scope, depth)
            if rng.random() < 0.1:
                return f"(-{part()})"
            return f"({part()} {rng.choice('+-*+-*/')} {part()})"
        name, u = wanted.name, wanted.unsigned
        choice = rng.random()
        if choice < 0.4:
            return f"({name})(({u}){part()} {rng.choice('+-*')} ({u}){part()})"
        if choice < 0.6:
            return f"({name})({part()} {rng.choice('&|^')} {part()})"
        if choice < 0.65:
            return f"({name})(~{part()})"
        if choice < 0.7:
            return f"({name})(0u - ({u}){part()})"
        if choice < 0.78:
            count = self.of(UNSIGNED, scope, depth - 1)
            return f"({name})(({u}){part()} << ({count} & {max(wanted.bits, 32) - 1}u))"
        if choice < 0.86:
            count = self.of(UNSIGNED, scope, depth - 1)
            return f"({name})({part()} >> ({count} & {wanted.bits - 1}u))"
        return f"{rng.choice(['quotient', 'remainder_of'])}<{name}>({part()}, {part()})"
