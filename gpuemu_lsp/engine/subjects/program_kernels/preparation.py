"""What the last recorded run of a program shows of one of its kernels: its code, and its launches."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.findings import Finding, Place, Severity
from gpuemu_lsp.engine.lint import lint
from gpuemu_lsp.engine.ptx.parser import parse
from gpuemu_lsp.engine.ptx.slicing import module_text
from gpuemu_lsp.engine.recordings.model import RecordedKernel, Recording, RecordingError
from gpuemu_lsp.engine.recordings.project_files import read_recordings, recordings_root
from gpuemu_lsp.engine.recordings.reader import contents_digest, read_contents
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.runtime.python_process.language import LaunchingLanguage
from gpuemu_lsp.engine.source.model import KernelDecl
from gpuemu_lsp.engine.subjects.assembly import with_assembly
from gpuemu_lsp.engine.subjects.language import PreparedKernel, ProgramLaunches, SourceRequest, resources_of
from gpuemu_lsp.engine.subjects.source_map import SourceMap


@dataclass(frozen=True, slots=True)
class _Run:
    """The kernels of one recording that were compiled from a function, by their numbers."""

    recording: Recording
    kernels: dict[int, RecordedKernel]

    def launches(self) -> ProgramLaunches:
        groups = [group for group in self.recording.groups if group.kernel in self.kernels]
        count, checked = sum(group.count for group in groups), sum(group.checked + group.repeated for group in groups)
        failed = sum(group.count for group in groups if group.findings)
        return ProgramLaunches(count, checked, failed)

    def code(self) -> tuple[RecordedKernel, str] | None:
        """Return the kernel that was launched first, with the PTX of its module; None if that is not stored."""
        kernel = next(iter(self.kernels.values()))
        if kernel.code is None:
            return None
        try:
            return kernel, read_contents(self.recording.path, kernel.code).decode()
        except (RecordingError, UnicodeDecodeError):
            return None


def prepare_launching(
    request: SourceRequest, language: LaunchingLanguage, declared: KernelDecl | None
) -> PreparedKernel:
    """Prepare a kernel that only its program launches: nothing of the user's is executed here."""
    spec = request.spec
    if declared is None:
        return request.stopped(request.not_run(f"{Path(spec.source).name} has no {language.name} kernel of this name"))
    place = Place(spec.source, declared.name_range)
    runs = list(_runs(request, language, declared))
    run = next((run for run in runs if _is_of_text(run, request.text)), None)
    code = run.code() if run is not None else None
    if run is None or code is None:
        return request.stopped(request.not_run(_why_not(request, language, bool(runs)), place), place=place)
    kernel, ptx = code
    module = parse(module_text(ptx).slice([kernel.symbol]))
    artifact = Artifact(spec.source, module.target, module.text, b"", {declared.name: kernel.symbol}, {}, "")
    source_map = SourceMap(module.files, lambda path: request.text if path == spec.source else None, place)
    # The program has run: what ptxas says of its code is not an error of it.
    artifact, _ = with_assembly(artifact, source_map, spec.name)
    file = request.function(declared.name, declared.name_range, declared.range)
    launches = run.launches()
    own = artifact.resources.get(kernel.symbol)
    artifact = replace(artifact, resources={kernel.symbol: own} if own is not None else {})
    findings = (_hint(request, place, launches, run), *lint(artifact, kernel.symbol, spec, file))
    return PreparedKernel(
        findings,
        place,
        file,
        artifacts=(artifact,),
        resources=resources_of([artifact]),
        launches=launches,
    )


def _runs(request: SourceRequest, language: LaunchingLanguage, declared: KernelDecl) -> Iterator[_Run]:
    """Yield the recorded runs that launched a kernel, latest first."""
    root = recordings_root(request.request.root, request.spec.source)
    for recording in read_recordings(root)[0] if root is not None else ():
        kernels = {
            number: kernel
            for number, kernel in enumerate(recording.kernels)
            if kernel.source == request.spec.source and language.is_symbol_of(kernel.name, declared.name)
        }
        if kernels:
            yield _Run(recording, kernels)


def _is_of_text(run: _Run, text: str) -> bool:
    digest = contents_digest(text.encode("utf-8", "surrogateescape"))
    return all(kernel.digest == digest for kernel in run.kernels.values())


def _why_not(request: SourceRequest, language: LaunchingLanguage, has_earlier_run: bool) -> str:
    name = Path(request.spec.source).name
    if not language.is_installed():
        return f"{language.name} is not installed: pip install 'gpuemu-lsp[{language.extra}]'"
    if has_earlier_run:
        return f"{name} has changed since its program ran. Run it again: `gpuemu run --record {name}`"
    return f"only its program compiles and launches it. Run it: `gpuemu run --record {name}`"


def _hint(request: SourceRequest, place: Place, launches: ProgramLaunches, run: _Run) -> Finding:
    name, times = Path(request.spec.source).name, "once" if launches.count == 1 else f"{launches.count} times"
    outcome = f"{launches.failed} with findings, which `gpuemu run {name}` shows"
    message = (
        f"'{request.spec.name}' was launched {times} when {run.recording.program} ran: {launches.checked} checked, "
        f"{outcome if launches.failed else 'without a finding'}."
    )
    # Else an error in the program would be clean here.
    severity = Severity.WARNING if launches.failed else Severity.HINT
    return make("config/launch-inferred", message, place, kernel=request.spec.name, severity=severity)
