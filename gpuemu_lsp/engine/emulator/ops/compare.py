"""Comparison and selection: ``setp``, ``set``, ``selp``, ``slct`` (PTX ISA sections 9.7.6 and 9.7.7)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

from gpuemu_lsp.engine.emulator.ops import ieee
from gpuemu_lsp.engine.emulator.ops.form import OpcodeForm, Operation, Resolver, operation
from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value, element
from gpuemu_lsp.engine.emulator.ops.logic import combine
from gpuemu_lsp.engine.emulator.ops.types import FLOAT, HALF, I16, I32, PACKED, Signature

_SYMBOLS = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
_UNSIGNED = {"lo": "<", "ls": "<=", "hi": ">", "hs": ">="}
_RELATION = _SYMBOLS | _UNSIGNED
_UNORDERED = {"equ": "==", "neu": "!=", "ltu": "<", "leu": "<=", "gtu": ">", "geu": ">="}
_FLOATS = ("f32", "f64", "f16", "bf16", "f16x2", "bf16x2")
_TYPES = (*(f"{kind}{bits}" for kind in "bus" for bits in (16, 32, 64)), *_FLOATS)
_FTZ = ("f32", "f16", "f16x2")

Compare: TypeAlias = Callable[[LaneBuilder, Value, Value], Value]


def _comparison(relation: str, name: str, ftz: bool) -> Compare | None:
    """Return code for one relation on one unpacked type, None if PTX has no such comparison."""
    kind = name.rstrip("0123456789")
    if kind in ("f", "bf"):
        if relation in _UNSIGNED:
            return None
        return lambda lanes, a, b: _compare_floats(lanes, relation, name, ftz, a, b)
    known = {"u": _RELATION.keys(), "s": _SYMBOLS.keys(), "b": {"eq", "ne"}}[kind]
    if ftz or relation not in known:
        return None
    symbol = _RELATION[relation]
    if kind == "s":
        return lambda lanes, a, b: lanes.builder.icmp_signed(symbol, a, b)
    return lambda lanes, a, b: lanes.builder.icmp_unsigned(symbol, a, b)


def _compare_floats(lanes: LaneBuilder, relation: str, name: str, ftz: bool, a: Value, b: Value) -> Value:
    if ftz:
        a, b = ieee.flush(lanes, a, name), ieee.flush(lanes, b, name)
    # bf16 is held as an integer pattern.
    if name == "bf16":
        a, b = ieee.widen(lanes, a, name), ieee.widen(lanes, b, name)
    if relation in _UNORDERED:
        return lanes.builder.fcmp_unordered(_UNORDERED[relation], a, b)
    return lanes.fcmp({"num": "ord", "nan": "uno"}.get(relation, _RELATION.get(relation, "")), a, b)


def _parse(form: OpcodeForm) -> tuple[str | None, str | None, bool]:
    relation = form.take(*_RELATION, *_UNORDERED, "num", "nan")
    return relation, form.take("and", "or", "xor"), form.has("ftz")


def _setp(form: OpcodeForm) -> Operation | None:
    relation, operator, ftz = _parse(form)
    name = form.type(_TYPES)
    if relation is None or name is None or not form.done or (ftz and name not in _FTZ):
        return None
    compare = _comparison(relation, PACKED.get(name, name), ftz)
    pair = form.shape[:1] == (2,)
    if compare is None or (name in PACKED and not pair):
        return None

    def emit(lanes: LaneBuilder, values: Sequence[Value]) -> Sequence[Value]:
        a, b = values[0], values[1]
        if name in PACKED:
            scalar = HALF if name == "f16x2" else I16
            # On packed types the two predicates are the comparisons of the two halves, not a result and its negation.
            pairs = zip(lanes.halves(a, scalar), lanes.halves(b, scalar), strict=True)
            results = [compare(lanes, left, right) for left, right in pairs]
        else:
            result = compare(lanes, a, b)
            results = [result, lanes.inverted(result)] if pair else [result]
        return [combine(lanes, operator, result, values[2]) for result in results] if operator else results

    sources = (name, name, "pred") if operator else (name, name)
    return Operation(Signature(("pred",) * (2 if pair else 1), sources), emit)


def _set(form: OpcodeForm) -> Operation | None:
    """Resolve ``set``: true is 1.0 in a float destination, all ones in an integer one."""
    relation, operator, ftz = _parse(form)
    destination = form.type(("u16", "s16", "u32", "s32", *_FLOATS))
    name = form.type(_TYPES)
    if relation is None or destination is None or name is None or not form.done or (ftz and name not in _FTZ):
        return None
    compare = _comparison(relation, PACKED.get(name, name), ftz)
    if compare is None or destination == "f64":
        return None
    packed = name in PACKED
    if packed != (destination in PACKED) and not (packed and destination in ("u32", "s32")):
        return None
    if destination in ("u16", "s16") and name not in ("f16", "bf16"):
        return None

    def one(lanes: LaneBuilder, a: Value, b: Value, *combined: Value) -> Value:
        result = compare(lanes, a, b)
        if operator:
            result = combine(lanes, operator, result, *combined)
        unpacked = PACKED.get(destination, destination)
        if unpacked in ("f32", "f16"):
            scalar = FLOAT if unpacked == "f32" else HALF
            return lanes.select(result, lanes.number(scalar, 1.0), lanes.number(scalar, 0.0))
        if unpacked == "bf16":
            return lanes.select(result, lanes.integer(I16, 0x3F80), lanes.integer(I16, 0))
        return lanes.resize(result, I16 if packed or unpacked in ("u16", "s16") else I32, signed=True)

    def emit(lanes: LaneBuilder, a: Value, b: Value, *combined: Value) -> Value:
        if not packed:
            return one(lanes, a, b, *combined)
        scalar = HALF if name == "f16x2" else I16
        pairs = zip(lanes.halves(a, scalar), lanes.halves(b, scalar), strict=True)
        low, high = (one(lanes, left, right, *combined) for left, right in pairs)
        return lanes.joined(low, high)

    return operation(destination, (name, name, "pred") if operator else (name, name), emit)


_SELECTABLE = (*(f"{kind}{bits}" for kind in "bus" for bits in (16, 32, 64)), "f32", "f64")


def _selp(form: OpcodeForm) -> Operation | None:
    name = form.type(_SELECTABLE)
    if name is None or not form.done:
        return None
    return operation(name, (name, name, "pred"), lambda lanes, a, b, c: lanes.select(c, a, b))


def _slct(form: OpcodeForm) -> Operation | None:
    """Resolve ``slct``: the first value where the third operand is at least 0, else (or for NaN) the second."""
    ftz = form.has("ftz")
    name, chooser = form.type(_SELECTABLE), form.type(("s32", "f32"))
    if name is None or chooser is None or not form.done or (ftz and chooser != "f32"):
        return None

    def emit(lanes: LaneBuilder, a: Value, b: Value, c: Value) -> Value:
        if chooser == "s32":
            return lanes.select(lanes.builder.icmp_signed(">=", c, lanes.integer(element(c), 0)), a, b)
        c = ieee.flush(lanes, c, "f32") if ftz else c
        return lanes.select(lanes.fcmp(">=", c, lanes.number(FLOAT, 0.0)), a, b)

    return operation(name, (name, name, chooser), emit)


RESOLVERS: dict[str, Resolver] = {"setp": _setp, "set": _set, "selp": _selp, "slct": _slct}
