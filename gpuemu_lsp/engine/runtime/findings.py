"""Findings of a run: one per rule and source line, with the launch and the allocation as related places."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from gpuemu_lsp.engine.emulator.launch.access_messages import WILD
from gpuemu_lsp.engine.emulator.launch.limits.stop_request import StopReason
from gpuemu_lsp.engine.event_findings import (
    Placement,
    after_free,
    finding_of,
    in_no_allocation,
    is_stopped_loop,
    outside_heap_block,
    stopped_in_loop,
    through_no_pointer,
    unordered_read,
)
from gpuemu_lsp.engine.execution import LOCAL_MEMORY, Access, Event, Outcome
from gpuemu_lsp.engine.findings import Finding, Place, Position, Range, Related, Severity
from gpuemu_lsp.engine.ptx.demangle import demangled_name
from gpuemu_lsp.engine.ptx.index_overflow import IndexOverflow
from gpuemu_lsp.engine.ptx.model import Location, inlining_chain
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.runtime.call_sites import CallSite, is_vendor_header, source_place
from gpuemu_lsp.engine.runtime.launches.kernels import ProgramLaunch
from gpuemu_lsp.engine.runtime.launches.requests import BuiltRequest
from gpuemu_lsp.engine.runtime.marked_sources import marked_origin
from gpuemu_lsp.engine.runtime.memory.allocations import DeviceAllocation, PendingAccess
from gpuemu_lsp.engine.runtime.memory.byte_sets import ByteSet
from gpuemu_lsp.engine.runtime.memory.device_memory import BASE, SIZE, DeviceMemory
from gpuemu_lsp.engine.runtime.protocol.calls import MemoryKind
from gpuemu_lsp.engine.same_mistake import earlier_of_same_mistake

_AT_TIME_LIMIT = StopReason("was stopped at its time limit", "")

_CONSTANT_BYTES = 64 << 10


class RunFindings:
    """Findings in the order in which they were made; repeated ones are counted."""

    def __init__(self, program: str, memory: DeviceMemory) -> None:
        self._program = program
        self._memory = memory
        self._found: dict[tuple[str, Place], Finding] = {}
        self._without_line = False
        self.paused = False
        """What is added is not kept."""
        self.made = 0
        """How many were made, without repeated ones."""

    @property
    def all(self) -> tuple[Finding, ...]:
        """The findings so far."""
        return tuple(self._found.values())

    @property
    def notes(self) -> tuple[str, ...]:
        """What the places of the findings lack."""
        if not self._without_line:
            return ()
        return ("the lines of some launches or calls are not known: compile the program's host code with -g",)

    def events(
        self,
        events: Iterable[Event],
        launch: ProgramLaunch,
        built: BuiltRequest,
        *,
        discarded: bool = False,
        stopped: StopReason | None = None,
    ) -> None:
        """Add the reports of the checkers about a launch, each with those that follow from it.

        ``discarded``: they are reads on whose values no result of the launch depends. ``stopped`` is why the launch was
        stopped, None if that was at its time limit.
        """
        reports = [
            report
            for report in (self._of_event(event, launch, built, discarded, stopped) for event in events)
            if report is not None
        ]
        causes = earlier_of_same_mistake([event for event, _ in reports])
        for number, (_, finding) in enumerate(reports):
            if number not in causes:
                following = _once(reports[other][1] for other, cause in causes.items() if cause == number)
                self._add(replace(finding, consequences=following))

    def _of_event(
        self, event: Event, launch: ProgramLaunch, built: BuiltRequest, discarded: bool, stopped: StopReason | None
    ) -> tuple[Event, Finding] | None:
        """Return the report of a checker with what the program shows about it, and its finding; None without one."""
        name = event.buffer or ""
        accessed = self._memory.named(name)
        write = _writer(built.unordered.get(name, ()), event) if event.rule == "memory/uninitialized-read" else None
        if write is not None and write.atomic and event.instruction.startswith(("atom.", "red.")):
            return None
        related = [
            Related(self.place(launch.site), f"launched here as {launch_text(launch)}"),
            *self._callers(launch.site),
        ]
        if is_stopped_loop(event):
            # It may only be slow: programs run with the sizes that they have.
            event = stopped_in_loop(event, launch_text(launch), (stopped or _AT_TIME_LIMIT).launch)
        elif accessed is not None:
            if self._is_of(event, accessed) and accessed.variable is None:
                freed = f", freed at {accessed.freed}" if accessed.freed else ""
                related.append(Related(self.place(accessed.site), f"{accessed.description}{freed}"))
            event = self._in_allocation(event, accessed, write)
            if event.rule == "api/stream-race" and write is not None:
                related.append(Related(self.place(write.site), "the write"))
        local = event.rule == "memory/uninitialized-read" and name == LOCAL_MEMORY
        if event.severity is None and (discarded or local):
            # Compilers load a local variable before the branch that decides whether its value is used.
            event = replace(event, severity=Severity.INFORMATION)
        note = "; no result of this launch depends on the value" if discarded else ""
        threads = launch.kernel.has_threads
        finding = finding_of(event, self._at(launch), note=note, threads=threads, kernel=_kernel_name(launch))
        line = finding.place.path, finding.place.range.start.line
        others = [one for one in finding.related if (one.place.path, one.place.range.start.line) != line]
        return event, replace(finding, related=(*others, *related))

    def _in_allocation(self, event: Event, accessed: DeviceAllocation, write: PendingAccess | None) -> Event:
        """Return an event with what the allocation that it is in, or next to, shows about it."""
        outside = event.rule == "memory/out-of-bounds"
        if outside and self._is_elsewhere(event, accessed):
            return in_no_allocation(event, self._elsewhere(event, accessed))
        if accessed.kind is MemoryKind.HEAP:
            return outside_heap_block(event) if outside else event
        if not accessed.live:
            return after_free(event, str(accessed.freed or ""))
        if outside and event.access is Access.WRITE and _is_inside(event, accessed):
            return through_no_pointer(event)
        return event if write is None else unordered_read(event, write.text)

    def _is_of(self, event: Event, accessed: DeviceAllocation) -> bool:
        """Return whether an event is about an allocation of the host."""
        elsewhere = event.rule == "memory/out-of-bounds" and self._is_elsewhere(event, accessed)
        return accessed.kind is not MemoryKind.HEAP and not elsewhere

    def _at(self, launch: ProgramLaunch) -> Placement:
        return lambda location: self._places(location, launch)

    def stopped(self, launch: ProgramLaunch, reason: StopReason | None) -> None:
        """Add that a launch was stopped, at its time limit without a ``reason``, and where is not known."""
        text = (reason or _AT_TIME_LIMIT).launch
        message = f"{launch_text(launch)} {text}, and not checked to its end"
        self._add(make("engine/timeout", message, self.place(launch.site), kernel=_kernel_name(launch)))

    def not_run(self, outcome: Outcome, launch: ProgramLaunch, stopped: StopReason | None) -> None:
        """Add the reason for which a launch did not run to its end, unless an event has it."""
        if outcome.status == "hung" and not any(event.rule == "sync/hang" for event in outcome.events):
            self.stopped(launch, stopped)
        elif not any(event.severity is None for event in outcome.events):
            message = f"{launch_text(launch)} did not run to its end: {outcome.status}"
            self._add(make("engine/not-executed", message, self.place(launch.site), kernel=_kernel_name(launch)))

    def host(
        self,
        rule: str,
        message: str,
        site: CallSite | None,
        allocation: DeviceAllocation | None,
        *others: PendingAccess,
        severity: Severity | None = None,
    ) -> None:
        """Add what a call of the host does wrong; ``others`` are the accesses that it conflicts with.

        ``severity`` is that of the rule by default.
        """
        related = self._callers(site)
        # Where a variable is declared is not known.
        if allocation is not None and allocation.variable is not None:
            message += f" (the variable `{demangled_name(allocation.variable)}`)"
        elif allocation is not None:
            related.append(Related(self.place(allocation.site), allocation.description))
        related += [
            Related(self.place(one.site), f"the {'read' if one.reads else 'write'}: {one.text}") for one in others
        ]
        found = make(rule, message, self.place(site), related=tuple(related))
        self._add(replace(found, severity=severity or found.severity))

    def overflow(self, overflow: IndexOverflow, launch: ProgramLaunch) -> None:
        """Add a 32-bit index that overflows in a launch that is followed, also while others are not kept."""
        place, related = self._places(overflow.access.location, launch)
        message = (
            f"This index overflows 32 bits: in {launch_text(launch)} it is {overflow.index}, and the wrapped value is "
            "used as an address"
        )
        launched = Related(self.place(launch.site), f"launched here as {launch_text(launch)}")
        related = (*related, launched, *self._callers(launch.site))
        self._keep(make("memory/index-overflow", message, place, related=related, kernel=_kernel_name(launch)))

    def cut_count(self, number: int, value: int, count: int, launch: ProgramLaunch) -> None:
        """Add an argument of a launch that is followed to which 32 bits of a number of elements were passed."""
        message = (
            f"Argument {number} of {launch_text(launch)} has 32 bits and is {value}: these are the low bits of "
            f"{count}, the elements of an array"
        )
        related = tuple(self._callers(launch.site))
        place = self.place(launch.site)
        self._keep(make("memory/index-overflow", message, place, related=related, kernel=_kernel_name(launch)))

    def _callers(self, site: CallSite | None) -> list[Related]:
        """Return the line of Python that has called a compiled one."""
        caller = site.caller if site is not None else None
        return [] if caller is None else [Related(self.place(caller), "called here")]

    def place(self, site: CallSite | None) -> Place:
        """Return the place of a call; the program itself if its line is not known."""
        if site is None:
            self._without_line = True
            return Place(self._program, Range.of(0, 0, 0, 0))
        return Place(site.path, Range(Position(site.line - 1, 0), Position(site.line, 0)))

    def _is_elsewhere(self, event: Event, nearest: DeviceAllocation) -> bool:
        """Return whether an access is so far from all allocations that it is meant for none of them."""
        if nearest.kind is MemoryKind.HEAP:
            return event.offset is None or not 0 <= event.offset < nearest.size
        return event.offset is not None and abs(event.offset) > WILD

    def _elsewhere(self, event: Event, nearest: DeviceAllocation) -> str:
        address = nearest.address + (event.offset or 0)
        if event.offset is None or BASE <= address < BASE + SIZE or not self._memory.words.program_has(address):
            return "in no allocation"
        return "in the host's memory, which the device cannot access"

    def _places(self, location: Location | None, launch: ProgramLaunch) -> tuple[Place, tuple[Related, ...]]:
        """Return the innermost line that is not in one of CUDA's headers, and the lines that it is inlined at.

        Those of code that was written for the line are with it.
        """
        files = launch.kernel.module.files
        chain = [at for at in inlining_chain(location) if at.file in files]
        own = [at for at in chain if not is_vendor_header(files[at.file])] or chain[-1:]
        if not own:
            return self.place(launch.site), ()
        (place, written), *calls = (self._place_in(at, launch) for at in own)
        inlined = dict.fromkeys(outer for outer, _ in calls if outer != place)
        return place, (*written, *(Related(outer, "inlined here") for outer in inlined))

    def _place_in(self, at: Location, launch: ProgramLaunch) -> tuple[Place, tuple[Related, ...]]:
        """Return the place of one location without its call sites, and its line in code that was written."""
        files = launch.kernel.module.files
        column = max(at.column - 1, 0)
        own = Place(files[at.file], Range(Position(at.line - 1, column), Position(at.line, 0)))
        origin = marked_origin(files[at.file], at.line)
        if origin is not None:
            return self.place(CallSite(*origin)), (Related(own, "in the code that was written for it"),)
        path, line = source_place(files[at.file], at.line, launch.site.caller if launch.site is not None else None)
        return Place(path, Range(Position(line - 1, column), Position(line, 0))), ()

    def _add(self, finding: Finding) -> None:
        if not self.paused:
            self._keep(finding)

    def _keep(self, finding: Finding) -> None:
        key = finding.rule, finding.place
        earlier = self._found.get(key)
        if earlier is None or (earlier.severity is not Severity.ERROR and finding.severity is Severity.ERROR):
            self._found[key] = finding
            self.made += 1
        else:
            launches = earlier.data.get("launches", 1)
            count = launches + 1 if isinstance(launches, int) else 1
            following = _once((*earlier.consequences, *finding.consequences))
            self._found[key] = replace(earlier, data={**earlier.data, "launches": count}, consequences=following)


def _once(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings without those of a rule and place that is there already."""
    return tuple({(finding.rule, finding.place): finding for finding in reversed(tuple(findings))}.values())[::-1]


def has_errors(findings: tuple[Finding, ...]) -> bool:
    """Return whether a finding is an error of the program."""
    return any(one.severity is Severity.ERROR and not one.rule.startswith("engine/") for one in findings)


def _kernel_name(launch: ProgramLaunch) -> str:
    return demangled_name(launch.kernel.function.name)


def launch_text(launch: ProgramLaunch) -> str:
    """Return a launch as its source has it, with the numbers of blocks and threads, or of programs."""
    if not launch.kernel.has_threads:
        return f"{_kernel_name(launch)}[{launch.grid}]"
    return f"{_kernel_name(launch)}<<<{_dim3(launch.grid)}, {_dim3(launch.block)}>>>"


def _dim3(size: tuple[int, int, int]) -> str:
    x, y, z = size
    return str(x) if y == z == 1 else f"({x}, {y}, {z})"


def _is_inside(event: Event, allocation: DeviceAllocation) -> bool:
    """Return whether an access is inside an allocation that is larger than all of constant memory."""
    inside = event.offset is not None and 0 <= event.offset <= allocation.size - (event.size or 1)
    return inside and allocation.size > _CONSTANT_BYTES


def _writer(pending: Iterable[PendingAccess], event: Event) -> PendingAccess | None:
    """Return the write that the bytes of a read may belong to."""
    if event.offset is None or event.size is None:
        return None
    read = ByteSet.of(slice(event.offset, event.offset + event.size))
    return next((write for write in pending if write.accessed.overlaps(read)), None)
