"""A typed opcode being taken apart, and the operation it resolves to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value
from gpuemu_lsp.engine.emulator.ops.types import Signature

Emit: TypeAlias = Callable[[LaneBuilder, Sequence[Value]], Sequence[Value]]


@dataclass(frozen=True, slots=True)
class Operation:
    """What one typed opcode does: its operands' types, the code for it, and how exact the result is.

    ``accuracy`` is None when the manual defines the result to the bit, else the error the manual allows.
    """

    signature: Signature
    emit: Emit
    accuracy: str | None = None


class OpcodeForm:
    """The modifiers of one opcode, taken one by one.

    A resolver takes every modifier it understands; what is left over makes the opcode unsupported, so that a modifier
    nobody has thought of is never ignored.

    ``shape`` has the number of elements of each operand as written: 1, or more for ``{a, b}`` and ``p|q``.
    ``immediates`` has the value of each operand that is an integer literal, else None.
    """

    __slots__ = ("_rest", "immediates", "opcode", "shape")

    def __init__(
        self, opcode: str, modifiers: Iterable[str], shape: tuple[int, ...], immediates: tuple[int | None, ...]
    ) -> None:
        self.opcode = opcode
        self._rest = list(modifiers)
        self.shape = shape
        self.immediates = immediates

    def take(self, *names: str) -> str | None:
        """Remove and return the first of the remaining modifiers that is among ``names``."""
        for modifier in self._rest:
            if modifier in names:
                self._rest.remove(modifier)
                return modifier
        return None

    def has(self, name: str) -> bool:
        """Remove ``name`` and return whether it was there."""
        return self.take(name) is not None

    def type(self, allowed: Iterable[str]) -> str | None:
        """Remove and return the next modifier if it is one of the ``allowed`` types."""
        if self._rest and self._rest[0] in allowed:
            return self._rest.pop(0)
        return None

    @property
    def done(self) -> bool:
        """Whether every modifier has been taken."""
        return not self._rest


Resolver: TypeAlias = Callable[[OpcodeForm], "Operation | None"]


def operation(
    destination: str,
    sources: Sequence[str],
    emit: Callable[..., Any],
    accuracy: str | None = None,
) -> Operation:
    """Return an operation with one result, from ``emit(lanes, *sources) -> value``."""
    return Operation(Signature((destination,), tuple(sources)), lambda lanes, values: (emit(lanes, *values),), accuracy)
