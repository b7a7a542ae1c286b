"""Findings of a run: one per rule and source line, with the launch and the allocation as related places."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuemu_lsp.engine.execution import Event, Outcome
from gpuemu_lsp.engine.findings import Finding, Place, Position, Range, Related, Severity
from gpuemu_lsp.engine.ptx.demangle import demangled_name
from gpuemu_lsp.engine.ptx.model import Location
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.device_memory import DeviceAllocation
from gpuemu_lsp.engine.runtime.launches import ProgramLaunch

_VENDOR = "/nvidia/cu13/"


class RunFindings:
    """Findings in the order in which they were made; repeated ones are counted."""

    def __init__(self, program: str) -> None:
        self._program = program
        self._found: dict[tuple[str, Place], Finding] = {}

    @property
    def all(self) -> tuple[Finding, ...]:
        """The findings so far."""
        return tuple(self._found.values())

    def event(self, event: Event, launch: ProgramLaunch, accessed: Sequence[DeviceAllocation]) -> None:
        """Add the report of a checker. ``accessed`` has the allocations that the access may belong to."""
        place = self._location(event.location, launch)
        related = [Related(self.place(launch.site), f"launched here as {_launch_text(launch)}")]
        for allocation in accessed:
            freed = f", freed at {allocation.freed}" if allocation.freed else ""
            related.append(Related(self.place(allocation.site), f"{allocation.description}{freed}"))
        data = {"thread": list(event.thread or ()), "block": list(event.block or ()), "count": event.count}
        finding = make(event.rule, event.message, place, kernel=_kernel_name(launch), data=data)
        if event.severity is not None:
            finding = replace(finding, severity=event.severity)
        self._add(replace(finding, related=tuple(related)))

    def not_run(self, outcome: Outcome, launch: ProgramLaunch) -> None:
        """Add the reason for which a launch did not run to its end, unless an event has it."""
        if not any(event.severity is None for event in outcome.events):
            message = f"{_launch_text(launch)} did not run to its end: {outcome.status}"
            self._add(make("engine/not-executed", message, self.place(launch.site), kernel=_kernel_name(launch)))

    def not_kept(self, launch: ProgramLaunch, variables: tuple[str, ...]) -> None:
        """Add that module variables begin every launch with their initialiser: later launches are not as on a GPU."""
        names = ", ".join(f"`{demangled_name(name)}`" for name in variables)
        message = f"{_launch_text(launch)} changes {names}, which `gpuemu run` does not keep for later launches yet"
        self._add(make("engine/not-executed", message, self.place(launch.site), kernel=_kernel_name(launch)))

    def host(self, message: str, site: CallSite | None, allocation: DeviceAllocation | None) -> None:
        """Add an invalid access by a call of the host, such as a copy past the end."""
        related: tuple[Related, ...] = ()
        if allocation is not None:
            related = (Related(self.place(allocation.site), allocation.description),)
        self._add(make("memory/out-of-bounds", message, self.place(site), related=related))

    def place(self, site: CallSite | None) -> Place:
        """Return the place of a call; the program itself if its line is not known."""
        if site is None:
            return Place(self._program, Range.of(0, 0, 0, 0))
        return Place(site.path, Range(Position(site.line - 1, 0), Position(site.line, 0)))

    def _location(self, location: Location | None, launch: ProgramLaunch) -> Place:
        """Return the innermost line that is not in one of CUDA's headers."""
        files = launch.kernel.module.files
        at = location
        while at is not None and _VENDOR in files.get(at.file, "") and at.inlined_at is not None:
            at = at.inlined_at
        if at is None or at.file not in files:
            return self.place(launch.site)
        column = max(at.column - 1, 0)
        return Place(files[at.file], Range(Position(at.line - 1, column), Position(at.line, 0)))

    def _add(self, finding: Finding) -> None:
        key = finding.rule, finding.place
        earlier = self._found.get(key)
        if earlier is None:
            self._found[key] = finding
        else:
            launches = earlier.data.get("launches", 1)
            count = launches + 1 if isinstance(launches, int) else 1
            self._found[key] = replace(earlier, data={**earlier.data, "launches": count})


def has_errors(findings: tuple[Finding, ...]) -> bool:
    """Return whether a finding is an error of the program."""
    return any(one.severity is Severity.ERROR and not one.rule.startswith("engine/") for one in findings)


def _kernel_name(launch: ProgramLaunch) -> str:
    return demangled_name(launch.kernel.function.name)


def _launch_text(launch: ProgramLaunch) -> str:
    return f"{_kernel_name(launch)}<<<{_dim3(launch.grid)}, {_dim3(launch.block)}>>>"


def _dim3(size: tuple[int, int, int]) -> str:
    x, y, z = size
    return str(x) if y == z == 1 else f"({x}, {y}, {z})"
