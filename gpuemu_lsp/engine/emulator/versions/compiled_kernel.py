"""A kernel of a module: analysed once, compiled per version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from enum import Enum
from functools import cached_property
from typing import Final, TypeAlias

from gpuemu_lsp.engine.emulator import ops
from gpuemu_lsp.engine.emulator.abi.states import Instrumentation
from gpuemu_lsp.engine.emulator.abi.structs import REGISTER_BYTES, Warp
from gpuemu_lsp.engine.emulator.analysis.block_claims import NO_CLAIMS, BlockClaims, find_block_claims
from gpuemu_lsp.engine.emulator.analysis.divergence import DivergenceInfo, all_divergent, analyse_divergence
from gpuemu_lsp.engine.emulator.analysis.kernel_graph import graph_of
from gpuemu_lsp.engine.emulator.analysis.liveness import Liveness, liveness, undefined_uses
from gpuemu_lsp.engine.emulator.analysis.provenance import pointer_parameters
from gpuemu_lsp.engine.emulator.analysis.race_candidates import NO_RACE_CANDIDATES, RaceCandidates, find_race_candidates
from gpuemu_lsp.engine.emulator.analysis.register_home import registers_kept_in_memory
from gpuemu_lsp.engine.emulator.analysis.webs import split_webs
from gpuemu_lsp.engine.emulator.codegen.core.recording_layout import VersionLayout, recording_layout
from gpuemu_lsp.engine.emulator.codegen.core.translation_unit import TranslationUnit, registers_with_slots
from gpuemu_lsp.engine.emulator.frontend.builder import ProgramSizeError
from gpuemu_lsp.engine.emulator.ir.lattice import ThreadBlockShape, thread_block_shape
from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.emulator.ir.program import Program, Trap
from gpuemu_lsp.engine.emulator.jit.compile import LoadedCode, target_description, vector_lanes
from gpuemu_lsp.engine.emulator.jit.translation_limit import TranslationTimeoutError
from gpuemu_lsp.engine.emulator.versions.cache_key import assumption_texts, program_texts
from gpuemu_lsp.engine.emulator.versions.code_cache import load_or_compile
from gpuemu_lsp.engine.emulator.versions.convergence_profile import ConvergenceProfile
from gpuemu_lsp.engine.emulator.versions.race_facts import RaceFacts
from gpuemu_lsp.engine.emulator.versions.stores import Stores, stores_of
from gpuemu_lsp.engine.ptx.model import Instruction, Module

_LEAST_COST_MS: Final = 20.0

_COMPACT_SITES: Final = 2_000
"""Sites from which optimised code has the form of baseline code: accesses as calls, registers in memory.
LLVM's register allocator is superlinear: 12,500 sites took 135 s, in this form 3; CUB's radix sort of 3,737 sites 20 to
120 s, in this form 5. A sorting network of 870 sites is not slower so."""
_MAX_OPTIMISED_SITES: Final = 20_000
"""Sites up to which code is optimised at all."""

_MAX_BLOCK_DIMENSIONS: Final = 4
"""Block dimensions for which addresses are analysed thread by thread; each set of race candidates needs own code."""


class TranslationError(Exception):
    """PTX that parses but cannot be translated: it is malformed, or the translator has a bug."""


@contextmanager
def _translating() -> Iterator[None]:
    """Turn every failure of the translator into a TranslationError.

    PTX that no compiler emits can be wrong in ways that show only as the translator fails on them (a register of the
    wrong type, a missing operand). Such a kernel has not run, and the caller must be able to report that.
    """
    try:
        yield
    except (TranslationError, TranslationTimeoutError, MemoryError):
        raise
    except ProgramSizeError as error:
        raise TranslationError(str(error)) from error
    except Exception as error:
        raise TranslationError(f"{type(error).__name__} {error}".replace("\n", " ")[:200]) from error


@dataclass(slots=True)
class CompiledVersion:
    """Machine code of one version, and the divergence analysis that it rests on.

    ``fallback`` takes over warps that diverge at a speculated branch; None for a version that does not speculate.
    """

    address: int
    divergence: DivergenceInfo
    code: LoadedCode
    fallback: CompiledVersion | None = None
    layout: VersionLayout = VersionLayout()
    """What a recording version writes."""


class CheckerMode(Enum):
    """Checks compiled into a version."""

    UNCHECKED = -1
    MEMORY = 0  # bounds, alignment, initialisation
    RACES = 1  # also races; pointer parameters do not alias
    RACES_ALIASED = 2  # also races; pointer parameters may alias
    GLOBAL_RACES = 3  # as RACES, without those in shared memory
    GLOBAL_RACES_ALIASED = 4


_Dims: TypeAlias = tuple[int, int, int]
_ShapedVersion: TypeAlias = tuple[ThreadBlockShape, CompiledVersion | None]
_Key: TypeAlias = tuple[ThreadBlockShape, frozenset[str], CheckerMode, Instrumentation, RaceCandidates, BlockClaims]


class CompiledKernel:
    """One kernel of a module, analysed once, with its versions compiled on demand.

    Raises
    ------
    TranslationError
        If the kernel is malformed.
    """

    def __init__(self, module: Module, entry: str, *, optimised: bool = False, wide: bool = False) -> None:
        self._wide = wide
        with _translating():
            program, self.graph = graph_of(module, entry)
            self.program: Program = split_webs(program, self.graph)
            self.liveness: Liveness = liveness(self.program, self.graph)
        self.symbol_indices = {name: index for index, name in enumerate(self.program.variables)}
        self._may_optimise = len(self.sites) <= _MAX_OPTIMISED_SITES
        self.optimised = optimised and self._may_optimise
        self.convergence = ConvergenceProfile()
        self._specialised: dict[_Key, CompiledVersion | None] = {}
        self._scalar_pc: dict[_Key, CompiledVersion] = {}
        self._race_candidates: dict[tuple[CheckerMode, _Dims | None], RaceCandidates] = {}
        self._block_claims: dict[bool, BlockClaims | None] = {}
        self.runs_in_order = False
        """Whether a launch has shown that blocks share memory, or has something to report: its blocks run in order."""
        self._forced_varying: dict[ThreadBlockShape, frozenset[str]] = {}
        self._assume_full_barriers = True
        self._baseline_ms = 0.0
        self.block_ms = 0.0
        """Time per block of the last launch, 0 before the first one."""

    @cached_property
    def context_offsets(self) -> dict[str, int]:
        """Byte offset of each saved register in a warp's context."""
        # Equal for all versions: a warp that changes to another one finds its registers.
        names = registers_with_slots(self.program, self.liveness)
        return {name: Warp.SAVED_REGISTERS + index * REGISTER_BYTES for index, name in enumerate(names)}

    @property
    def context_bytes(self) -> int:
        """Size of a warp's context, a multiple of 64 bytes."""
        return -(-(Warp.SAVED_REGISTERS + REGISTER_BYTES * len(self.context_offsets)) // 64) * 64

    @cached_property
    def sites(self) -> list[tuple[Instruction | None, Trap | None]]:
        """The instruction of each site, and the trap where a basic block ends with one."""
        result: list[tuple[Instruction | None, Trap | None]] = []
        for block in self.program.blocks:
            result += [(instruction, None) for instruction in block.code]
            end = block.terminator
            result.append((getattr(end, "instruction", None), end if isinstance(end, Trap) else None))
        return result

    @cached_property
    def approximate(self) -> tuple[str, ...]:
        """The opcodes of the kernel for whose result the PTX manual gives an error bound, not a value."""
        instructions = (one for block in self.program.blocks for one in block.code)
        return tuple(sorted({one.name for one in instructions if ops.supports(one) and ops.accuracy(one) is not None}))

    @cached_property
    def race_facts(self) -> RaceFacts:
        """Facts that decide how races of this kernel are reported."""
        return RaceFacts(self.program)

    @cached_property
    def stores(self) -> Stores:
        """What it writes in global memory."""
        return stores_of(self.program)

    @cached_property
    def undefined_uses(self) -> dict[str, Instruction]:
        """Registers with which it computes before a value is assigned, and the first such use of each."""
        return undefined_uses(self.program, self.graph, self.liveness)

    def site_of_block(self, number: int) -> int:
        """Return the first site of a basic block."""
        return sum(len(block.code) + 1 for block in self.program.blocks[:number])

    # ---- tiers -------------------------------------------------------------------------------------------------------

    @property
    def optimisation_ms(self) -> float:
        """Estimated time to compile optimised code: a millisecond per instruction."""
        return max(_LEAST_COST_MS, float(len(self.sites)))

    @property
    def is_final(self) -> bool:
        """Whether no better code will be compiled: it is optimised, and the speculation is decided."""
        return not self._may_optimise or (self.optimised and self.convergence.decided)

    @property
    def _is_compact(self) -> bool:
        return len(self.sites) > _COMPACT_SITES

    def stay_baseline(self) -> None:
        """Compile no optimised code from now on: it has exceeded the time limit of translation."""
        self._may_optimise = self.optimised = False
        self._specialised.clear()
        self._scalar_pc.clear()

    def add_baseline_time(self, milliseconds: float, factor: float) -> bool:
        """Add time spent in baseline code; return whether the sum exceeds ``factor`` times the time to optimise."""
        self._baseline_ms += milliseconds
        return self._baseline_ms > factor * self.optimisation_ms

    def optimise(self) -> None:
        """Use optimised code from now on, with the speculation that has been decided."""
        if not self.optimised:
            self.optimised = True
            self._specialised.clear()
            self._scalar_pc.clear()
            return
        # Already optimised: only the speculation has changed, and versions that it does not concern stay.
        self._specialised = {
            key: version
            for key, version in self._specialised.items()
            if not version
            or not (version.fallback or self.convergence.speculated(version.divergence.divergent_loop_branches))
        }

    # ---- assumptions that launches have disproved --------------------------------------------------------------------

    def force_varying(self, shape: ThreadBlockShape, site: int) -> None:
        """Treat the results of the instruction at ``site`` as varying: an assumption about them has failed."""
        instruction = self.sites[site][0]
        names = registers_written(instruction) if instruction is not None else ()
        self._forced_varying[shape] = self._forced_varying.get(shape, frozenset()) | set(names)

    def drop_full_barrier_assumption(self) -> None:
        """Instrument accesses that were excluded because all threads wait at the same barrier instruction each time."""
        self._assume_full_barriers = False
        self._race_candidates.clear()

    def race_candidates(self, mode: CheckerMode, block: _Dims) -> RaceCandidates:
        """Return the accesses that the race detector instruments in blocks of these dimensions."""
        if mode in (CheckerMode.MEMORY, CheckerMode.UNCHECKED):
            return NO_RACE_CANDIDATES
        # For further dimensions the result for any dimensions is used, so that a kernel launched with ever new ones is
        # not compiled for each.
        few = len(self._race_candidates) < _MAX_BLOCK_DIMENSIONS
        dimensions = block if (mode, block) in self._race_candidates or few else None
        if (mode, dimensions) not in self._race_candidates:
            self._race_candidates[mode, dimensions] = find_race_candidates(
                self.program,
                dimensions,
                aliased=mode in (CheckerMode.RACES_ALIASED, CheckerMode.GLOBAL_RACES_ALIASED),
                # What a program gives to the asynchronous proxy it orders itself, whatever compiles it.
                shared=mode in (CheckerMode.RACES, CheckerMode.RACES_ALIASED) or self.program.has_async_proxy,
                assume_full_barriers=self._assume_full_barriers,
            )
        return self._race_candidates[mode, dimensions]

    def block_claims(self, *, aliased: bool) -> BlockClaims | None:
        """Return what blocks claim that are executed side by side; None if they must be executed in order."""
        if self.runs_in_order or self.undefined_uses:
            return None
        if aliased not in self._block_claims:
            self._block_claims[aliased] = find_block_claims(self.program, aliased=aliased)
        return self._block_claims[aliased]

    # ---- versions ----------------------------------------------------------------------------------------------------

    def specialised(
        self,
        block: _Dims,
        mode: CheckerMode = CheckerMode.MEMORY,
        noting: Instrumentation = Instrumentation.NONE,
        claims: BlockClaims = NO_CLAIMS,
    ) -> _ShapedVersion:
        """Return the specialised or speculative version for a block's shape; None where only the scalar-PC version is.

        Raises
        ------
        TranslationError
            If the kernel cannot be translated.
        """
        with _translating():
            key = self._key(block, mode, noting, claims)
            if key not in self._specialised:
                self._specialised[key] = self._specialise(key)
        return key[0], self._specialised[key]

    def translated(
        self, block: _Dims, mode: CheckerMode, noting: Instrumentation, claims: BlockClaims
    ) -> _ShapedVersion | None:
        """Return what :meth:`specialised` would; None if that would translate anything."""
        key = self._key(block, mode, noting, claims)
        return (key[0], self._specialised[key]) if key in self._specialised else None

    def scalar_pc(
        self,
        block: _Dims,
        mode: CheckerMode = CheckerMode.MEMORY,
        noting: Instrumentation = Instrumentation.NONE,
        claims: BlockClaims = NO_CLAIMS,
    ) -> CompiledVersion:
        """Return the scalar-PC version, which can take over warps of the specialised one."""
        key = self._key(block, mode, noting, claims)
        if key not in self._scalar_pc:
            with _translating():
                self._scalar_pc[key] = self._compile(self._scalar_pc_unit(key), optimised=self.optimised)
        return self._scalar_pc[key]

    def recording_layouts(self, block: _Dims, mode: CheckerMode) -> tuple[VersionLayout, VersionLayout]:
        """Return what recording versions write: the specialised one, nothing without one, and the scalar-PC one."""
        key = self._key(block, mode, Instrumentation.RECORDING, NO_CLAIMS)
        specialised = self._specialised.get(key)
        layout = specialised.layout if specialised is not None else VersionLayout()
        return layout, recording_layout(self._scalar_pc_unit(key))

    def _scalar_pc_unit(self, key: _Key) -> TranslationUnit:
        specialised = self._specialised.get(key)
        divergence = all_divergent(self.program)
        # Warps of a speculative version hand over registers in the shapes of its fallback.
        source = (specialised.fallback or specialised).divergence if specialised else divergence
        return self._unit(key, divergence, source, optimised=self.optimised, scalar_pc=True)

    def _key(self, block: _Dims, mode: CheckerMode, noting: Instrumentation, claims: BlockClaims) -> _Key:
        shape = thread_block_shape(block, vector_lanes())
        forced = self._forced_varying.get(shape, frozenset())
        return shape, forced, mode, noting, self.race_candidates(mode, block), claims

    def _specialise(self, key: _Key) -> CompiledVersion | None:
        proven = self._analyse(key)
        if not proven.reconverges or self.program.recursive:
            return None
        # Affine addresses gain nothing where every access is a call.
        loops = frozenset() if self._is_compact else proven.divergent_loop_branches
        branches = self.convergence.speculated(loops)
        speculated = self._analyse(key, branches) if branches else proven
        # Speculation must gain something: shapes that are more regular.
        if speculated.shapes == proven.shapes or not speculated.reconverges:
            return self._compile(self._unit(key, proven, proven, optimised=self.optimised), optimised=self.optimised)
        # The fallback is entered rarely by design, so that optimising it would not pay.
        fallback = self._compile(self._unit(key, proven, proven, optimised=False), optimised=False)
        unit = self._unit(key, speculated, proven, optimised=self.optimised, speculated_uniform=branches)
        version = self._compile(unit, optimised=self.optimised)
        return replace(version, fallback=fallback)

    def _analyse(self, key: _Key, speculated_uniform: frozenset[int] = frozenset()) -> DivergenceInfo:
        shape, forced, *_ = key
        frame = max(self.program.local_bytes, 1)
        return analyse_divergence(self.program, self.graph, self.liveness, shape, forced, frame, speculated_uniform)

    @cached_property
    def _program_texts(self) -> tuple[str, ...]:
        """The part of the cache key that all versions share: the program and the machine."""
        return (*program_texts(self.program), target_description())

    @cached_property
    def _pointer_parameters(self) -> Mapping[str, int]:
        return pointer_parameters(self.program)

    def _compile(self, unit: TranslationUnit, *, optimised: bool) -> CompiledVersion:
        code = load_or_compile((*self._program_texts, *assumption_texts(unit)), unit, optimised=optimised)
        layout = recording_layout(unit) if unit.recording else VersionLayout()
        return CompiledVersion(code.addresses["warp"], unit.divergence, code, layout=layout)

    def _unit(
        self,
        key: _Key,
        divergence: DivergenceInfo,
        handover: DivergenceInfo,
        *,
        optimised: bool,
        scalar_pc: bool = False,
        speculated_uniform: frozenset[int] = frozenset(),
    ) -> TranslationUnit:
        shape, _, mode, noting, candidates, claims = key
        # Registers in memory make code short: baseline code has them all there, and so has the scalar-PC version, whose
        # groups of lanes come and go at every basic block.
        compact = not optimised or self._is_compact
        if scalar_pc or compact:
            in_memory = frozenset(self.context_offsets)
        else:
            in_memory = registers_kept_in_memory(self.program, self.graph, self.liveness, divergence)
        return TranslationUnit(
            program=self.program,
            graph=self.graph,
            liveness=self.liveness,
            divergence=divergence,
            block_shape=shape,
            scalar_pc=scalar_pc,
            symbol_indices=self.symbol_indices,
            context_offsets=self.context_offsets,
            in_memory=in_memory,
            handover_shapes=handover.shapes,
            race_candidates=candidates,
            claims=claims,
            checked=mode != CheckerMode.UNCHECKED,
            noting=noting,
            pointer_parameters=self._pointer_parameters,
            baseline=compact,
            speculated_uniform=speculated_uniform,
            wide=self._wide,
        )
