"""The emulator as an executor: one launch, from request to outcome."""

from __future__ import annotations

import math
import time
from contextlib import nullcontext
from dataclasses import replace

import numpy as np

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.emulator.abi.access_flags import Window
from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.abi.states import Instrumentation
from gpuemu_lsp.engine.emulator.abi.structs import MAX_CLUSTER_BLOCKS
from gpuemu_lsp.engine.emulator.analysis.block_claims import NO_CLAIMS, BlockClaims
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.jit.translation_limit import TranslationLimit, TranslationTimeoutError
from gpuemu_lsp.engine.emulator.launch.arena import Arena, ArenaFullError, shared_arena
from gpuemu_lsp.engine.emulator.launch.arguments import windows_of_buffers
from gpuemu_lsp.engine.emulator.launch.async_proxy import AsyncOperations
from gpuemu_lsp.engine.emulator.launch.attendant import AssumptionError
from gpuemu_lsp.engine.emulator.launch.barriers import BarrierAssumptionError
from gpuemu_lsp.engine.emulator.launch.counters import CounterCollector
from gpuemu_lsp.engine.emulator.launch.coverage import coverage_of
from gpuemu_lsp.engine.emulator.launch.device_memory.memory import LastingMemory
from gpuemu_lsp.engine.emulator.launch.device_runtime import DeviceRuntime
from gpuemu_lsp.engine.emulator.launch.events import FAULTS, collect_events, last_writer
from gpuemu_lsp.engine.emulator.launch.host_addresses import translate_to_host
from gpuemu_lsp.engine.emulator.launch.limits.stop_request import StopRequest
from gpuemu_lsp.engine.emulator.launch.recorder import DEFAULT_LIMITS, BlockRecorder, BlockRecording, RecordingLimits
from gpuemu_lsp.engine.emulator.launch.scheduler import OutOfOrderError, Scheduler
from gpuemu_lsp.engine.emulator.launch.setup import cluster_dims, prepare
from gpuemu_lsp.engine.emulator.launch.state import LaunchReport, PreparedLaunch
from gpuemu_lsp.engine.emulator.launch.texture_faults import TextureFaults
from gpuemu_lsp.engine.emulator.launch.threads.team import BlockTeam
from gpuemu_lsp.engine.emulator.launch.tma.maps import UNSUPPORTED
from gpuemu_lsp.engine.emulator.launch.vector_clocks import attach_race_detector
from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CompiledKernel, TranslationError
from gpuemu_lsp.engine.emulator.versions.kernel_cache import KernelCache
from gpuemu_lsp.engine.emulator.versions.stores import Stores
from gpuemu_lsp.engine.emulator.versions.tiering import LaunchVersions, may_alias
from gpuemu_lsp.engine.execution import Bytes, Counters, Event, Outcome, Request
from gpuemu_lsp.engine.host_threads import chosen
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.ptx.model import Instruction
from gpuemu_lsp.engine.time_limit import scheduled_clock

_MAX_THREADS = 1024
_NOT_RUN = frozenset({"engine/unsupported-instruction", "engine/not-executed"})


class Emulator:
    """Runs launches on the CPU; implements :class:`~gpuemu_lsp.engine.execution.Executor`.

    Compiled kernels are cached. One launch at a time per process, because all share one arena. ``optimised`` compiles
    optimised code from the first launch on; by default it is compiled for hot kernels. ``lasting`` is the memory of a
    program, which launches access where it is. ``stop`` can end launches early. ``threads`` execute blocks of a launch
    side by side where that changes nothing but its time; None is as many as are chosen for this process.

    Raises
    ------
    ArenaFullError
        If there is lasting memory, and the system refuses further memory.
    """

    name = "emulator"

    def __init__(
        self,
        *,
        optimised: bool = False,
        lasting: LastingMemory | None = None,
        stop: StopRequest | None = None,
        threads: int | None = None,
    ) -> None:
        self._threads = threads
        self._stop = stop or StopRequest()
        self._library = KernelCache(optimised=optimised, wide=lasting is not None)
        self._recording_library = KernelCache(wide=lasting is not None)
        self._arena = Arena(lasting) if lasting is not None else None

    def run(self, request: Request) -> Outcome:
        """Run one launch. Errors of the kernel are events of the outcome, never exceptions."""
        return self._run(request, self._library)

    def record(
        self,
        request: Request,
        block: int,
        limits: RecordingLimits = DEFAULT_LIMITS,
        *,
        picture_at: int = 0,
        begin: int = 0,
    ) -> tuple[Outcome, BlockRecording | None]:
        """Run one launch and record what one block of it does: the outcome is that of :meth:`run`.

        Parameters
        ----------
        request : Request
            The launch.
        block : int
            Linear number of the block in the grid.
        limits : RecordingLimits
            The most that is recorded.
        picture_at : int
            Number of the run, from the begin of the window, before which memory is copied.
        begin : int
            Position from which on the block is recorded: see
            :class:`~gpuemu_lsp.engine.emulator.launch.recorder.RecordedWindow`.

        Returns
        -------
        tuple of Outcome and BlockRecording or None
            The recording is None if the launch was not executed, or not up to this block.
        """
        recorder = BlockRecorder(block, limits, picture_at, begin)
        outcome = self._run(request, self._recording_library, recorder)
        return outcome, recorder.recording() if recorder.has_started else None

    def _run(self, request: Request, library: KernelCache, recorder: BlockRecorder | None = None) -> Outcome:
        problem = _launch_problem(request)
        if problem is not None:
            return _failed(problem)
        began, linking = scheduled_clock(), 0.0
        known = library.known(request.artifact.ptx, request.entry)
        if not known:
            # Compiled once per machine, and not interrupted: its time is not the kernel's.
            DEVICE_LIBRARY.link()
            linking = (scheduled_clock() - began) * 1e3
        limit = TranslationLimit(request.translate_seconds)
        try:
            with nullcontext() if known else limit.running():
                kernel, _, milliseconds = library.kernel(request.artifact.ptx, request.entry)
        except TranslationTimeoutError as error:
            return _timed_out(request, request.artifact.ptx.count(";\n"), error, began)
        except PtxError as error:
            return _failed(f"the PTX cannot be read: {error}")
        except KeyError:
            return _failed(f"the module has no kernel `{request.entry}`")
        except TranslationError as error:
            return _failed(f"the PTX cannot be translated: {error}")
        milliseconds += linking
        if recorder is not None:
            # Compiled for one launch; its layouts are those of code that speculates on nothing.
            kernel.stay_baseline()
        problem = _cluster_problem(request, kernel.program.required_cluster)
        if problem is not None:
            return _failed(problem)
        while True:
            try:
                arena = self._arena or shared_arena()
                return _run_once(
                    kernel, request, arena, limit, milliseconds, self._stop, recorder, self._threads or chosen()
                )
            except _Again as again:
                milliseconds = again.milliseconds
            except ArenaFullError as error:
                return _failed(f"not run: it needs {error}")
            except TranslationError as error:
                return _failed(f"the PTX cannot be translated: {error}")
            except TranslationTimeoutError as error:
                return _timed_out(request, len(kernel.sites), error, began)

    def stores(self, request: Request) -> Stores:
        """Return what the kernel of a launch that was run writes."""
        return self._library.kernel(request.artifact.ptx, request.entry)[0].stores

    def undefined_uses(self, request: Request) -> tuple[Instruction, ...]:
        """Return the instructions that compute with a register before a value is assigned, of a launch that was run."""
        return tuple(self._library.kernel(request.artifact.ptx, request.entry)[0].undefined_uses.values())


class _Again(Exception):  # noqa: N818 - not an error: the launch starts again with other code
    def __init__(self, milliseconds: float) -> None:
        super().__init__()
        self.milliseconds = milliseconds


def _run_once(
    kernel: CompiledKernel,
    request: Request,
    arena: Arena,
    limit: TranslationLimit,
    milliseconds: float,
    stop: StopRequest,
    recorder: BlockRecorder | None,
    threads: int,
) -> Outcome:
    """Run a launch from its beginning; ``milliseconds`` have been spent on translation before."""
    noting = Instrumentation.RECORDING if recorder is not None else None
    claims: BlockClaims | None = None
    windows: tuple[tuple[str, Window], ...] = ()
    if threads > 1 and recorder is None and arena.lasting is None:
        claims, windows = _claims(kernel, request)
    versions = LaunchVersions(kernel, request, limit, noting, claims or NO_CLAIMS)
    if versions.specialised is None:
        versions.scalar_pc()
    milliseconds += versions.compile_seconds * 1e3
    versions.compile_seconds = 0.0
    translated = time.perf_counter()
    runtime = DeviceRuntime(arena, request.max_printed)
    prepared = prepare(request, kernel, arena, runtime.address, versions.may_start_again, windows)
    runtime.heap = prepared.heap
    textures = TextureFaults(prepared)
    runtime.textures = textures.execute
    counting = CounterCollector(kernel.program, arena, prepared.launch) if request.counting else None
    if recorder is not None:
        recorder.attach(prepared, versions)
    candidates = kernel.race_candidates(versions.checker_mode, request.block)
    clocks = attach_race_detector(prepared, candidates)
    proxy = AsyncOperations(prepared, clocks)
    runtime.bulk = proxy.execute
    team: BlockTeam | None = None
    ready = time.perf_counter()
    try:
        if claims is not None:
            team = BlockTeam(prepared, versions, claims, candidates, stop, threads)
        scheduler = Scheduler(prepared, clocks, versions, stop, team)
        runtime.on_interrupt, runtime.is_over = scheduler.stop, scheduler.is_over
        with stop.listening(scheduler.hurry):
            report = scheduler.run()
        if runtime.interrupted:
            raise KeyboardInterrupt
        proxy.report_to(report)
        textures.report_to(report)
    except AssumptionError as error:
        kernel.force_varying(versions.shape, error.site)
        raise _Again(milliseconds) from None
    except BarrierAssumptionError:
        kernel.drop_full_barrier_assumption()
        raise _Again(milliseconds) from None
    except OutOfOrderError:
        kernel.runs_in_order = True
        raise _Again(milliseconds) from None
    finally:
        clocks.close()
        if team is not None:
            team.close()
    finished = time.perf_counter()
    compiling = versions.compile_seconds
    versions.end_launch((finished - ready - compiling) * 1e3, scheduler.profile(prepared.blocks))
    return _outcome(
        prepared,
        report,
        runtime,
        translate_ms=milliseconds + compiling * 1e3,
        launch_ms=(finished - ready - compiling) * 1e3,
        started=translated + compiling,
        counted=counting.counters() if counting is not None else None,
        unknown_objects=proxy.unknown_map or textures.unknown_object,
    )


def _claims(kernel: CompiledKernel, request: Request) -> tuple[BlockClaims | None, tuple[tuple[str, Window], ...]]:
    """Return what blocks of a launch claim that are executed side by side, and the memory that they may write.

    None if all are executed in order.
    """
    several = math.prod(request.grid) > 1 and cluster_dims(kernel.program.required_cluster) == (1, 1, 1)
    if several and request.cluster is None and not (request.counting or request.descending or request.watch):
        claims = kernel.block_claims(aliased=may_alias(request))
        windows = windows_of_buffers(request, kernel, claims) if claims is not None else None
        if windows is not None:
            return claims, windows
    return None, ()


def _outcome(
    prepared: PreparedLaunch,
    report: LaunchReport,
    runtime: DeviceRuntime,
    *,
    translate_ms: float,
    launch_ms: float,
    started: float,
    counted: Counters | None,
    unknown_objects: bool,
) -> Outcome:
    events = collect_events(prepared, report)
    if unknown_objects:
        # The tiles never arrived, the texels were not read: whatever else was found is not a fault of the program.
        events = tuple(event for event in events if event.rule == UNSUPPORTED)
    if any(event.cause is Cause.LOCKSTEP for event in events):
        # What the lanes have read may be other values than in lockstep, and all else follows from it. Races do not.
        events = tuple(event for event in events if event.rule.endswith("-race") or event.rule in _NOT_RUN)
    # A failed assert is a call and a trap in PTX: the event is the trap's, the text the call's.
    if runtime.assertion is not None:
        events = tuple(replace(e, message=runtime.assertion) if e.cause is Cause.FAILED_ASSERT else e for e in events)
    arena, request = prepared.arena, prepared.request
    buffers: dict[str, Bytes] = {}
    written: dict[str, np.ndarray[tuple[int], np.dtype[np.bool_]]] = {}
    translate_to_host(request, arena, prepared.buffers)
    for buffer in request.buffers:
        if buffer.freed or buffer.resident:
            continue
        region = prepared.buffers[buffer.name]
        after = arena.data(region.address, region.size)
        for offset, _ in buffer.pointers:
            after[offset : offset + 8] = buffer.data[offset : offset + 8]
        if request.in_place:
            if buffer.alias_of is None:
                buffer.data[:] = after
            buffers[buffer.name] = buffer.data
            continue
        buffers[buffer.name] = after.copy()
        # Code without checks does not keep shadow bytes.
        if request.checks.contained:
            written[buffer.name] = (arena.shadow(region.address, region.size) & Shadow.WRITTEN) != 0
    there = {buffer.variable for buffer in request.buffers if buffer.resident}
    variables = {
        name: arena.data(prepared.module_variables[name].address, variable.size).copy()
        for name, variable in prepared.kernel.program.variables.items()
        if variable.space == "global" and name in prepared.module_variables and name not in there
    }
    return Outcome(
        status=_status(report, events),
        executor=Emulator.name,
        buffers=buffers,
        written=None if request.in_place else written,
        events=events,
        watched=last_writer(prepared),
        printed=runtime.printed,
        approximate=prepared.kernel.approximate,
        steps=report.steps,
        coverage=coverage_of(prepared.kernel.program, prepared.coverage.bytes) if request.coverage else None,
        variables=variables,
        translate_ms=translate_ms,
        execute_ms=(time.perf_counter() - started) * 1e3,
        launch_ms=launch_ms,
        counted=counted,
    )


def _status(report: LaunchReport, events: tuple[Event, ...]) -> str:
    rules = {event.rule for event in events}
    if rules & _NOT_RUN:
        return "unsupported"
    if report.status == "hung":
        return "hung"
    if report.status == "stopped" or rules & FAULTS:
        return "trapped"
    return "completed"


def _launch_problem(request: Request) -> str | None:
    """Return the reason for which CUDA would reject the launch, None if it would not."""
    x, y, z = request.block
    if min(request.block) < 1 or min(request.grid) < 1:
        return f"a launch of {request.grid} blocks of {request.block} threads is empty"
    if x * y * z > _MAX_THREADS or x > _MAX_THREADS or y > _MAX_THREADS or z > 64:
        return f"a block of {x} x {y} x {z} threads is larger than a GPU allows"
    if request.grid[1] > 65535 or request.grid[2] > 65535:
        return f"a grid of {request.grid} blocks is larger than a GPU allows"
    return None


def _cluster_problem(request: Request, required: tuple[int, ...]) -> str | None:
    """Return the reason for which CUDA would reject the clusters of a launch, None if it would not."""
    dims = request.cluster or cluster_dims(required)
    text = " x ".join(map(str, dims))
    if required and dims != cluster_dims(required):
        return f"a launch with clusters of {text} blocks of a kernel that requires {' x '.join(map(str, required))}"
    if min(dims) < 1 or math.prod(dims) > MAX_CLUSTER_BLOCKS:
        return f"a cluster of {text} blocks is larger than a GPU allows, {MAX_CLUSTER_BLOCKS}"
    if any(whole % part for whole, part in zip(request.grid, dims, strict=True)):
        return f"a grid of {request.grid} blocks does not consist of clusters of {text} blocks"
    return None


def _timed_out(request: Request, instructions: int, error: TranslationTimeoutError, began: float) -> Outcome:
    """Return the outcome of a launch whose translation, which ``began`` at a time, took too long."""
    limit = f"{request.translate_seconds:.3g} s"
    message = f"translating {instructions:,} PTX instructions took longer than {limit}; the time ran out in {error}"
    message += ". Less inlining and unrolling makes it shorter"
    failed = _failed(message, "engine/timeout", Cause.TRANSLATION_TIME)
    return replace(failed, translate_ms=(scheduled_clock() - began) * 1e3)


def _failed(message: str, rule: str = "engine/not-executed", cause: Cause | None = None) -> Outcome:
    event = Event(rule, message, None, "", cause=cause)
    return Outcome(status="failed", executor=Emulator.name, buffers={}, events=(event,))
