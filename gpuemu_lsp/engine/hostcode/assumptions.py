"""What an interpretation of host code assumes: types, flags, and the tensors that callers pass."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum


@dataclass(frozen=True, slots=True)
class TensorRank:
    """The rank of a tensor of a caller; ``certain``: the program needs it, ``like``: another with the same sizes."""

    rank: int
    certain: bool
    like: str = ""


@dataclass
class UnexpectedRankError(Exception):
    """A tensor that callers pass is used with another rank than assumed."""

    name: str
    rank: TensorRank


class Layout(Enum):
    """How a tensor of a caller that is not contiguous lies in memory."""

    PADDED = "padded"
    """Rows of a wider tensor, as ``x[:, :n]``; of three axes or more the two before the last are exchanged too."""
    TRANSPOSED = "transposed"
    """The last two axes are exchanged, as in ``x[:, :n].T``."""


@dataclass(frozen=True, slots=True)
class HostAssumptions:
    """What an interpretation assumes.

    ``scalable`` has ``*`` or ``**`` if large constants become symbols, and the names of those that do not. ``device``
    are the names in device code, whose constants keep their values. ``named`` are variables that stand for a size of
    their own, whatever the program gives them. ``instance`` are the template arguments of the function
    that the interpretation starts with, as far as they are known; ``scalar`` is the type that stands for others.
    ``ranks`` are those of tensors that callers pass.
    ``layouts`` are those that are not contiguous.
    ``decision`` is whether flags, and equalities of sizes, that are not known are true; None for either. Sizes are
    smaller than ``largest``.
    """

    scalar: str = "float"
    instance: tuple[str, ...] = ()
    devices: int = 1
    scalable: frozenset[str] = frozenset()
    device: frozenset[str] = frozenset()
    named: frozenset[str] = frozenset()
    ranks: Mapping[str, TensorRank] = field(default_factory=dict, hash=False)
    layouts: Mapping[str, Layout] = field(default_factory=dict, hash=False)
    decision: bool | None = None
    largest: int | None = None
