"""The records of the store."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.fuzz.model import Array, CaseKey


class StoreError(Exception):
    """The store cannot be used. The message is for the user and names the file."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failing case, with what is needed to run it again.

    ``key`` rebuilds the case from the kernel's plan. ``tensors`` replaces inputs, by parameter name, where the
    minimiser changed values. ``dims`` are the sizes the case had. ``line`` is the finding's 0-based line.
    ``source_hash`` identifies the plan and source it was found with. ``minimised_from`` is the case id it was made of,
    None for a case as it was drawn. ``optimized`` is False for what only unoptimised code shows.
    """

    kernel: str
    dtype: str
    rule: str
    message: str
    key: CaseKey
    dims: Mapping[str, int] = field(default_factory=dict)
    tensors: Mapping[str, Array] = field(default_factory=dict)
    line: int | None = None
    source_hash: str = ""
    minimised_from: str | None = None
    optimized: bool = True

    @property
    def case(self) -> str:
        """The id users see, a decimal string below 2**64.

        It is the seed for a case as it was drawn. A case that the minimiser made of it is another case, with an id made
        of its contents.
        """
        if self.minimised_from is None and not self.tensors:
            return self.key.id
        digest = hashlib.blake2b(digest_size=8)
        dims = sorted((self.key.dims or {}).items())
        digest.update(repr((self.kernel, self.dtype, self.key.seed, self.key.strategy, dims)).encode())
        for name, tensor in sorted(self.tensors.items()):
            digest.update(repr((name, tensor.dtype.name, tensor.shape)).encode())
            digest.update(tensor.tobytes())
        return str(int.from_bytes(digest.digest(), "big"))


@dataclass(frozen=True, slots=True)
class StoredFailure:
    """A failure as it came out of the store. Times are seconds since the epoch.

    ``fixed`` says that it passed the last time it was run; it is still replayed, after the others.
    """

    failure: Failure
    case: str
    found: float
    last_seen: float
    times_seen: int = 1
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """How one check of a kernel ended. ``status`` is as in the JSON report, ``time`` is seconds since the epoch."""

    kernel: str
    dtype: str
    status: str
    cases_run: int
    cases_passed: int
    source_hash: str = ""
    data: Mapping[str, Json] = field(default_factory=dict)
    time: float = 0.0


@dataclass(frozen=True, slots=True)
class BaselineRecord:
    """What one kernel instance measured when a baseline was taken: numbers and resources as plain JSON, and its PTX.

    ``origin`` says what the numbers are of: source, toolchain, options, seed, commit.
    """

    kernel: str
    dtype: str
    arch: str
    numbers: Mapping[str, Json] = field(default_factory=dict)
    resources: Mapping[str, Json] = field(default_factory=dict)
    ptx: str = ""
    origin: Mapping[str, Json] = field(default_factory=dict)
