"""A typed opcode while its modifiers are being matched, and the operation that it resolves to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from gpuemu_lsp.engine.emulator.ops.lanes import LaneBuilder, Value
from gpuemu_lsp.engine.emulator.ops.types import Signature

Emit: TypeAlias = Callable[[LaneBuilder, Sequence[Value]], Sequence[Value]]


@dataclass(frozen=True, slots=True)
class Operation:
    """Semantics of one typed opcode: types of its operands, a function that builds its code, and its accuracy.

    ``accuracy`` is None if the manual defines the result to the bit, else the error that the manual allows.
    """

    signature: Signature
    emit: Emit
    accuracy: str | None = None


class OpcodeForm:
    """Opcode and modifiers of an instruction, consumed by a resolver.

    A resolver takes every modifier that it understands. If any is left over the opcode is unsupported, so that no
    modifier is ever ignored.

    ``shape`` is the number of elements of each operand as written: 1, or more for ``{a, b}`` and ``p|q``.
    ``immediates`` is the value of each operand that is an integer literal, None for others.
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
        """Remove modifier ``name``, and return whether it was present."""
        return self.take(name) is not None

    def type(self, allowed: Iterable[str]) -> str | None:
        """Remove and return the next modifier if it is one of the ``allowed`` types.

        Types come last and in a fixed order, so that only the next modifier can be the type.
        """
        if self._rest and self._rest[0] in allowed:
            return self._rest.pop(0)
        return None

    @property
    def done(self) -> bool:
        """Whether all modifiers have been consumed."""
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
