"""What to check, and to which extent.

Imports neither NumPy nor the emulator, so that the front ends start quickly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.project.model import KernelSpec, Validation
from gpuemu_lsp.engine.source.model import EmbeddingModule

DEFAULT_SEED = 42
DEFAULT_CASES = 16
FIRST_CASES = 8
"""Cases that run at any cost. Without a requested number, further cases run only while these were cheap."""
CHEAP = 200_000
"""Input elements and emulator steps of all cases of a dtype up to which they count as cheap. Not a time, so that every
machine runs the same cases."""
DEFAULT_STRATEGY = "quick"


@dataclass(frozen=True, slots=True)
class CheckOptions:
    """Extent of a check. Correctness does not depend on it; gpuemu.toml alone defines that.

    ``cases`` is per dtype; None runs as many as a check on save can afford, at most :attr:`most`. ``arch`` overrides
    the configured architectures. ``execute`` False stops after lint, as in an untrusted workspace. ``seed_given`` is
    True if the user chose ``seed``, which then overrides ``[validation].seed``. ``store_root`` is the folder whose
    ``.gpuemu/`` stores failing cases, None to store none. ``case_seconds`` limits each launch and each call of the
    reference, ``translate_seconds`` the translation of a dtype's kernel to machine code, in all launches together.
    """

    cases: int | None = None
    seed: int = DEFAULT_SEED
    seed_given: bool = False
    arch: str | None = None
    executor: str = "auto"
    execute: bool = True
    store_root: str | None = None
    max_failures: int = 3
    case_seconds: float = 10.0
    translate_seconds: float = 30.0
    strategy: str = DEFAULT_STRATEGY
    dtypes: tuple[str, ...] = ()
    """Dtypes to run, if the kernel has any of them; empty for all."""
    coverage: bool = False
    """Report line and branch coverage. From the ninth case on, every other case is then guided to untaken branches."""
    unoptimized: bool = False
    """Run some of the cases again on PTX compiled without optimisation (the deep check)."""
    counters: bool = False
    """Run the largest passing case again and count memory traffic, bank conflicts and idle lanes."""
    seconds: float | None = None
    """Time after which no further case starts, also if ``cases`` are left; the first one always runs."""
    verdicts: str = "run"
    """``run`` always runs the cases; ``record`` also stores the verdict; ``reuse`` takes the stored verdict of the same
    code where there is one. ``find`` takes it too, and like ``stop`` ends before the first case, without a report."""
    specialisations: str = "all"
    """Of a Triton kernel: ``all`` compiles the one that a launch of each case has. ``general`` lets cases share code
    that assumes nothing of integers, which every value may be passed to; stored cases have their own all the same."""

    @property
    def most(self) -> int:
        """The largest number of cases per dtype."""
        return DEFAULT_CASES if self.cases is None else self.cases


@dataclass(frozen=True, slots=True)
class CheckRequest:
    """One kernel to check.

    ``text`` is an editor's unsaved text of the source, None to read the file; ``overlay`` has unsaved texts of headers
    by absolute path. ``registered`` is False for a kernel that no gpuemu.toml mentions. ``program`` are the name
    expressions of all kernels of the file: one compilation then serves the checks of them all. ``batch`` identifies
    requests of one file at one time: a worker that has checked one of them reads no file again for the others.
    ``alone`` compiles a kernel without those, from a text that does not have them. ``module`` is the Python module
    whose string ``text`` is.
    """

    spec: KernelSpec
    options: CheckOptions = CheckOptions()
    validation: Validation = Validation()
    registered: bool = True
    text: str | None = None
    root: str = "."
    overlay: Mapping[str, str] = field(default_factory=dict)
    program: tuple[str, ...] = ()
    alone: bool = False
    batch: str = ""
    module: EmbeddingModule | None = None

    @property
    def user_code(self) -> str | None:
        """The script that a check executes: the reference, or the module of a Triton kernel; None if there is none.

        A ``.py`` with CUDA code in strings is not executed, but only its text shows that.
        """
        imported = self.spec.source if self.spec.source.endswith(".py") else None
        return (self.spec.reference or imported) if self.options.execute else None
