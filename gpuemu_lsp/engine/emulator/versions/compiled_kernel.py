"""Translated kernels, kept while the process lives: parsed once, analysed per entry, compiled per block shape."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from typing import TypeAlias

from gpuemu_lsp.engine.emulator.abi.structs import REGISTER_BYTES, Warp
from gpuemu_lsp.engine.emulator.analysis.cfg import build_cfg
from gpuemu_lsp.engine.emulator.analysis.divergence import DivergenceInfo, all_divergent, analyse_divergence
from gpuemu_lsp.engine.emulator.analysis.liveness import Liveness, liveness
from gpuemu_lsp.engine.emulator.analysis.provenance import pointer_parameters
from gpuemu_lsp.engine.emulator.analysis.race_candidates import NO_RACE_CANDIDATES, RaceCandidates, find_race_candidates
from gpuemu_lsp.engine.emulator.analysis.register_home import registers_kept_in_memory
from gpuemu_lsp.engine.emulator.analysis.webs import split_webs
from gpuemu_lsp.engine.emulator.codegen.core.translation_unit import TranslationUnit, registers_with_slots
from gpuemu_lsp.engine.emulator.codegen.translate import translate
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.frontend.flatten import flatten
from gpuemu_lsp.engine.emulator.ir.lattice import ThreadBlockShape, thread_block_shape
from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.emulator.ir.program import Program, Trap
from gpuemu_lsp.engine.emulator.jit import disk_cache
from gpuemu_lsp.engine.emulator.jit.compile import (
    LoadedCode,
    compile_object,
    load_object,
    target_description,
    vector_lanes,
)
from gpuemu_lsp.engine.emulator.versions.convergence_profile import ConvergenceProfile
from gpuemu_lsp.engine.emulator.versions.identity import assumptions, identity
from gpuemu_lsp.engine.ptx.model import Instruction, Module
from gpuemu_lsp.engine.ptx.parser import parse

_KEPT_MODULES = 16

_FIRST_LEVEL = 0
"""How well code is optimised at first: not at all. Most kernels are run for a few milliseconds and then edited."""
_BEST_LEVEL = 1
_CHEAPEST_MS = 20.0


_DIMENSIONS = 4
"""Dimensions of blocks of which a kernel's addresses are computed thread by thread: each may ask for other code."""


class TranslationError(Exception):
    """PTX that can be read but not be translated: it was written by hand, or the translator is wrong."""


@contextmanager
def _translating() -> Iterator[None]:
    """Turn whatever goes wrong into a TranslationError.

    PTX that no compiler made can be wrong in ways that only show as the translator trips over them (a register of the
    wrong type, an operand too few). Such a kernel has not run, and the caller must be able to say so.
    """
    try:
        yield
    except (TranslationError, MemoryError):
        raise
    except Exception as error:
        raise TranslationError(f"{type(error).__name__} {error}".replace("\n", " ")[:200]) from error


@dataclass(slots=True)
class CompiledVersion:
    """One translation: the code, and the analysis it rests on.

    ``plain`` is the code that takes over where lanes part that were taken to stay together, None if none were.
    """

    address: int
    info: DivergenceInfo
    compiled: LoadedCode
    plain: CompiledVersion | None = None


class CheckerMode(Enum):
    """Checks compiled into a version."""

    UNCHECKED = -1
    MEMORY = 0  # bounds, alignment, initialisation
    RACES = 1  # also races; pointer parameters do not alias
    RACES_ALIASED = 2  # also races; pointer parameters may alias


class Instrumentation(Enum):
    """Instrumentation compiled into a version."""

    NONE = 0
    COVERAGE = 1
    COUNTERS = 2


_Dims: TypeAlias = tuple[int, int, int]
_Key: TypeAlias = tuple[ThreadBlockShape, frozenset[str], CheckerMode, Instrumentation, RaceCandidates]


class CompiledKernel:
    """One kernel of a module and its translations."""

    def __init__(self, module: Module, entry: str, *, optimised: bool = False) -> None:
        program, self.graph = build_cfg(flatten(module, entry))
        self.program: Program = split_webs(program, self.graph)
        self.live: Liveness = liveness(self.program, self.graph)
        self.symbols = {name: index for index, name in enumerate(self.program.variables)}
        self._specialised: dict[_Key, CompiledVersion | None] = {}
        self._general: dict[_Key, CompiledVersion] = {}
        self._tracking: dict[tuple[CheckerMode, _Dims | None], RaceCandidates] = {}
        self._pinned: dict[ThreadBlockShape, frozenset[str]] = {}
        self.optimised = optimised
        self.forks = ConvergenceProfile()
        self._trusting = True
        self._spent_ms = 0.0

    @cached_property
    def saved(self) -> dict[str, int]:
        """Byte offset of each saved register in a warp's context."""
        names = registers_with_slots(self.program, self.live)
        return {name: Warp.SAVED_REGISTERS + index * REGISTER_BYTES for index, name in enumerate(names)}

    @cached_property
    def _identity(self) -> tuple[str, ...]:
        """What decides the code of all translations: the program and the machine."""
        return (*identity(self.program), target_description())

    @cached_property
    def _pointers(self) -> Mapping[str, int]:
        return pointer_parameters(self.program)

    @property
    def context_bytes(self) -> int:
        """Size of a warp's context."""
        return -(-(Warp.SAVED_REGISTERS + REGISTER_BYTES * len(self.saved)) // 64) * 64

    @cached_property
    def sites(self) -> list[tuple[Instruction | None, Trap | None]]:
        """The instruction (and the stop, where a block ends with one) of each site number."""
        result: list[tuple[Instruction | None, Trap | None]] = []
        for block in self.program.blocks:
            result += [(instruction, None) for instruction in block.code]
            end = block.terminator
            result.append((getattr(end, "instruction", None), end if isinstance(end, Trap) else None))
        return result

    def site_of_block(self, number: int) -> int:
        """Return the number of a block's first site."""
        return sum(len(block.code) + 1 for block in self.program.blocks[:number])

    @property
    def cost_ms(self) -> float:
        """What making optimised code takes, roughly: a millisecond for each instruction."""
        return max(_CHEAPEST_MS, float(len(self.sites)))

    @property
    def best(self) -> bool:
        """Whether the code is as good as it gets."""
        return self.optimised and self.forks.decided

    def spent(self, milliseconds: float, pays: float) -> bool:
        """Count time spent in unoptimised code; return whether that is ``pays`` times the cost of better code."""
        self._spent_ms += milliseconds
        return self._spent_ms > pays * self.cost_ms

    def optimise(self) -> None:
        """Use optimised code from now on, which takes for granted what has been decided about the forks."""
        if not self.optimised:
            self.optimised = True
            self._specialised.clear()
            self._general.clear()
            return
        known = self._specialised.items()
        stay = {
            key: code
            for key, code in known
            if not code or not (code.plain or self.forks.together(code.info.divergent_loop_branches))
        }
        self._specialised = stay

    def pin(self, shape: ThreadBlockShape, site: int) -> None:
        """Treat what the instruction at ``site`` writes as varying from now on: an assumption about it was wrong."""
        instruction = self.sites[site][0]
        names = registers_written(instruction) if instruction is not None else ()
        self._pinned[shape] = self._pinned.get(shape, frozenset()) | set(names)

    def tracking(self, watching: CheckerMode, block: _Dims) -> RaceCandidates:
        """Return what the race checker watches in blocks of these dimensions."""
        if watching in (CheckerMode.MEMORY, CheckerMode.UNCHECKED):
            return NO_RACE_CANDIDATES
        one = block if (watching, block) in self._tracking or len(self._tracking) < _DIMENSIONS else None
        if (watching, one) not in self._tracking:
            aliased = watching == CheckerMode.RACES_ALIASED
            self._tracking[watching, one] = find_race_candidates(
                self.program, one, aliased=aliased, assume_full_barriers=self._trusting
            )
        return self._tracking[watching, one]

    def distrust_barriers(self) -> None:
        """Let the race checker no longer count on all threads meeting at one and the same barrier of the program."""
        self._trusting = False
        self._tracking.clear()

    def _key(self, block: _Dims, watching: CheckerMode, noting: Instrumentation) -> _Key:
        shape = thread_block_shape(block, vector_lanes())
        return shape, self._pinned.get(shape, frozenset()), watching, noting, self.tracking(watching, block)

    def specialised(
        self, block: _Dims, watching: CheckerMode = CheckerMode.MEMORY, noting: Instrumentation = Instrumentation.NONE
    ) -> tuple[ThreadBlockShape, CompiledVersion | None]:
        """Return the fast translation for a block's shape; None where only the general one is right."""
        with _translating():
            key = self._key(block, watching, noting)
            if key not in self._specialised:
                self._specialised[key] = self._specialise(key)
        return key[0], self._specialised[key]

    def _specialise(self, key: _Key) -> CompiledVersion | None:
        info = self._analyse(key)
        if not info.reconverges or self.program.recursive:
            return None
        together = self.forks.together(info.divergent_loop_branches)
        better = self._analyse(key, together) if together else info
        if better.shapes == info.shapes or not better.reconverges:
            return self._compile(key, info, info, optimised=self.optimised)
        plain = self._compile(key, info, info, optimised=False)
        code = self._compile(key, better, info, optimised=self.optimised, together=together)
        return replace(code, plain=plain)

    def _analyse(self, key: _Key, together: frozenset[int] = frozenset()) -> DivergenceInfo:
        shape, pinned, *_ = key
        frame = max(self.program.local_bytes, 1)
        return analyse_divergence(self.program, self.graph, self.live, shape, pinned, frame, together)

    def general(
        self, block: _Dims, watching: CheckerMode = CheckerMode.MEMORY, noting: Instrumentation = Instrumentation.NONE
    ) -> CompiledVersion:
        """Return the translation in which lanes are independent; it can take over from the specialised one."""
        key = self._key(block, watching, noting)
        if key not in self._general:
            fast = self._specialised.get(key)
            with _translating():
                info = all_divergent(self.program)
                before = (fast.plain or fast).info if fast else info
                self._general[key] = self._compile(key, info, before, optimised=self.optimised, whole=True)
        return self._general[key]

    def _in_memory(self, info: DivergenceInfo) -> frozenset[str]:
        return registers_kept_in_memory(self.program, self.graph, self.live, info)

    def _compile(
        self,
        key: _Key,
        info: DivergenceInfo,
        before: DivergenceInfo,
        *,
        optimised: bool,
        whole: bool = False,
        together: frozenset[int] = frozenset(),
    ) -> CompiledVersion:
        shape, _, watching, noting, tracking = key
        unit = TranslationUnit(
            program=self.program,
            graph=self.graph,
            liveness=self.live,
            divergence=info,
            block_shape=shape,
            scalar_pc=whole,
            symbol_indices=self.symbols,
            context_offsets=self.saved,
            in_memory=frozenset(self.saved)
            if whole or not optimised
            else registers_kept_in_memory(self.program, self.graph, self.live, info),
            handover_shapes=before.shapes,
            race_candidates=tracking,
            checked=watching != CheckerMode.UNCHECKED,
            coverage=noting == Instrumentation.COVERAGE,
            counting=noting == Instrumentation.COUNTERS,
            pointer_parameters=self._pointers,
            baseline=not optimised,
            speculated_uniform=together,
        )
        compiled = _loaded((*self._identity, *assumptions(unit)), unit, optimised=optimised)
        return CompiledVersion(compiled.addresses["warp"], info, compiled)


_KEPT_CODE = 64
_code: dict[bytes, LoadedCode] = {}


def clear_code_cache() -> None:
    """Forget all machine code of this process that no kernel holds; benchmarks start afresh with it."""
    _code.clear()


def _loaded(parts: tuple[str, ...], unit: TranslationUnit, *, optimised: bool) -> LoadedCode:
    """Return the code of a unit: of this process, from disk, or translated; better code than asked for will do."""
    level = _BEST_LEVEL if optimised else _FIRST_LEVEL
    keys = [disk_cache.key_of((f"level {one}", *parts)) for one in range(_BEST_LEVEL, level - 1, -1)]
    key = next((key for key in keys if key in _code), keys[-1])
    compiled = _code.pop(key, None)
    if compiled is None:
        DEVICE_LIBRARY.link()
        disk = disk_cache.shared_cache()
        code = None
        for key in keys:
            code = disk.load(key)
            if code is not None:
                break
        if code is None:
            code = compile_object(translate(unit), level)
            disk.store(key, code)
        compiled = load_object(code, ("warp",))
    _code[key] = compiled
    while len(_code) > _KEPT_CODE:
        del _code[next(iter(_code))]
    return compiled


@dataclass(slots=True)
class KernelCache:
    """Modules by the text they were parsed from; the oldest go first."""

    optimised: bool = False
    """Whether code is optimised at once."""
    _modules: dict[str, tuple[Module, dict[str, CompiledKernel]]] = field(default_factory=dict)

    def kernel(self, ptx: str, entry: str) -> tuple[CompiledKernel, Module, float]:
        """Return a kernel, its module, and the milliseconds it took to get it.

        Raises
        ------
        PtxError
            If the text is not PTX.
        KeyError
            If it has no such kernel.
        TranslationError
            If the kernel makes no sense.
        """
        started = time.perf_counter()
        key = hashlib.blake2b(ptx.encode(), digest_size=16).hexdigest()
        known = self._modules.pop(key, None)
        if known is None:
            known = (parse(ptx), {})
        self._modules[key] = known
        while len(self._modules) > _KEPT_MODULES:
            del self._modules[next(iter(self._modules))]
        module, kernels = known
        if entry not in kernels:
            function = module.functions.get(entry)
            if function is None or not function.is_entry or function.body is None:
                raise KeyError(entry)
            with _translating():
                kernels[entry] = CompiledKernel(module, entry, optimised=self.optimised)
        return kernels[entry], module, (time.perf_counter() - started) * 1e3


__all__ = ["CompiledKernel", "CompiledVersion", "KernelCache", "TranslationError"]
