"""Records of the store, and restoration of stored cases."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.fuzz.model import Array, Case, CaseKey

RECORDED = "recorded"
"""Strategy of a case that was not drawn: a call of a running program, all of whose inputs are stored."""


class StoreError(Exception):
    """The store cannot be used. The message is shown to the user and names the file."""


@dataclass(frozen=True, slots=True)
class Failure:
    """A failing case, with everything needed to run it again.

    ``key`` rebuilds the case from the kernel's plan. ``tensors`` has the inputs, by parameter name, whose values the
    minimiser changed. ``dims`` are the sizes of the case. ``line`` is the finding's 0-based line. ``source_hash``
    identifies the plan and source that failed. ``minimised_from`` is the id of the original case, None for a case as it
    was drawn. ``optimized`` is False for a failure that only unoptimised code shows.
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
        """Return the case id, a decimal string below 2**64.

        The id of a case as it was drawn is its seed. The id of a minimised case is a hash of its contents.
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
    """A failure read from the store. Times are in seconds since the epoch.

    ``fixed`` says that it passed when it was last run; it is still replayed, after the failing ones.
    """

    failure: Failure
    case: str
    found: float
    last_seen: float
    times_seen: int = 1
    fixed: bool = False


@dataclass(frozen=True, slots=True)
class CheckVerdict:
    """The verdict of one check of a kernel and dtype.

    ``status`` is as in the JSON report, ``time`` in seconds since the epoch.
    """

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
    """The measurements of one kernel instance in a baseline: errors and resources as JSON, and its PTX.

    ``origin`` identifies what was measured: source, toolchain, options, seed, commit.
    """

    kernel: str
    dtype: str
    arch: str
    numbers: Mapping[str, Json] = field(default_factory=dict)
    resources: Mapping[str, Json] = field(default_factory=dict)
    ptx: str = ""
    origin: Mapping[str, Json] = field(default_factory=dict)


def restored(failure: Failure, rebuilt: Case) -> Case | None:
    """Return ``rebuilt`` with the stored values instead of the drawn ones.

    Parameters
    ----------
    failure : Failure
        The stored failure.
    rebuilt : Case
        The case that ``failure.key`` builds from the kernel's current plan.

    Returns
    -------
    Case or None
        None if an input no longer exists or has another shape or dtype: the signature has changed, and the stored
        values do not apply.
    """
    for name, tensor in failure.tensors.items():
        present = rebuilt.tensors.get(name)
        if present is None or present.shape != tensor.shape or present.dtype != tensor.dtype:
            return None
    return replace(rebuilt, tensors={**rebuilt.tensors, **failure.tensors})
