"""CUDA code in strings of a ``.py`` file, checked like a ``.cu`` file.

The text of a string is read, compiled and run under the path of the ``.py``. Everything that a check reports has
positions in that text; they are replaced by positions in the ``.py`` when it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from gpuemu_lsp.engine.check.model import CheckRequest, KernelReport, LineCoverage
from gpuemu_lsp.engine.findings import Finding, Place, Position, Related, Severity
from gpuemu_lsp.engine.plan.resolve import unregistered
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source import read, usual_include_dirs
from gpuemu_lsp.engine.source.python import read_python
from gpuemu_lsp.engine.source.python.mapped_text import FileLines
from gpuemu_lsp.engine.source.python.model import EmbeddedCuda, PythonSource

_Event = TypeVar("_Event")
_KEPT_OPTIONS = ("-D", "-U", "-I", "--define-macro", "--undefine-macro", "--include-path", "-std=", "--std=")
_KEPT_FLAGS = frozenset({"-use_fast_math", "--use_fast_math", "-default-device", "--device-as-default-execution-space"})


def kernels_in_strings(path: str, text: str) -> tuple[list[KernelSpec], list[Finding]]:
    """Return the kernels in the strings of a ``.py``, and a hint for each call whose code is not known.

    The places of the specs are those of the kernels' names in the ``.py``.
    """
    source = read_python(path, text)
    lines = FileLines(text.encode())
    specs: list[KernelSpec] = []
    for index, cuda in enumerate(source.cuda):
        include_dirs = usual_include_dirs(path, cuda.text.text)
        inner = read(path, cuda.text.text, include_dirs)
        wanted = {entry.split("<")[0].split("::")[-1].strip() for entry in cuda.entries}
        for declaration in inner.kernels:
            if cuda.api == "RawKernel" and wanted and declaration.name not in wanted:
                continue
            spec = unregistered(inner, declaration, include_dirs)
            place = Place(path, cuda.text.origin_range(declaration.name_range, lines))
            specs.append(replace(spec, string=index, compile_options=_nvrtc_options(cuda.options), places={"": place}))
    hints = [
        make(
            "engine/not-executed",
            f"The CUDA code of this {unread.api} was not checked: {unread.reason}.",
            Place(path, unread.range),
            severity=Severity.HINT,
        )
        for unread in source.unread
    ]
    return specs, hints


def _nvrtc_options(options: Iterable[str]) -> tuple[str, ...]:
    """Return the options that determine what the code means; nvcc has others, which NVRTC does not accept."""
    return tuple(one for one in options if one.startswith(_KEPT_OPTIONS) or one in _KEPT_FLAGS)


@dataclass(frozen=True, slots=True)
class StringChecks:
    """One check of a kernel in a string: its request as that of a ``.cu`` file, and where results belong."""

    request: CheckRequest
    cuda: EmbeddedCuda
    lines: FileLines

    def located(self, events: Iterable[_Event]) -> Iterator[_Event | Finding | KernelReport]:
        """Yield the events of the check with places in the ``.py``."""
        for event in events:
            if isinstance(event, Finding):
                yield self._finding(event)
            elif isinstance(event, KernelReport):
                yield self._report(event)
            else:
                yield event

    def _finding(self, finding: Finding) -> Finding:
        return replace(
            finding,
            place=self._place(finding.place),
            related=tuple(Related(self._place(one.place), one.message) for one in finding.related),
            consequences=tuple(map(self._finding, finding.consequences)),
        )

    def _place(self, place: Place) -> Place:
        if place.path != self.request.spec.source:
            return place
        return Place(place.path, self.cuda.text.origin_range(place.range, self.lines))

    def _report(self, report: KernelReport) -> KernelReport:
        return replace(report, coverage=tuple(map(self._coverage, report.coverage)))

    def _coverage(self, line: LineCoverage) -> LineCoverage:
        if line.path != self.request.spec.source:
            return line
        ways = tuple(replace(way, to=self._to(way.to)) for way in line.ways)
        return replace(line, line=self._line(line.line), ways=ways)

    def _to(self, line: int | None) -> int | None:
        return None if line is None else self._line(line)

    def _line(self, line: int) -> int:
        return self.cuda.text.origin(Position(line, 0), self.lines).line


def string_check(request: CheckRequest) -> StringChecks | None:
    """Return the check of a kernel in a string; None if the kernel's source is not a ``.py``, or lost the string."""
    if request.spec.string is None:
        return None
    text = request.text
    if text is None:
        text = Path(request.spec.source).read_bytes().decode("utf-8-sig")
    source: PythonSource = read_python(request.spec.source, text)
    if request.spec.string >= len(source.cuda):
        return None
    cuda = source.cuda[request.spec.string]
    inner = read(request.spec.source, cuda.text.text, request.spec.include_dirs)
    declared = next((one for one in inner.kernels if one.qualified_name == request.spec.entry), None)
    spec = request.spec
    if declared is not None and "name" not in spec.places:
        spec = replace(spec, places={"": Place(spec.source, declared.name_range)})
    return StringChecks(replace(request, spec=spec, text=cuda.text.text), cuda, FileLines(text.encode()))
