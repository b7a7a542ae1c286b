"""CUDA code in strings of a ``.py`` file, checked like a ``.cu`` file.

The text of a string is read, compiled and run under the path of the ``.py``. Everything that a check reports has
positions in that text; they are replaced by positions in the ``.py`` when it is done.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TypeVar, cast

from gpuemu_lsp.engine.check.model import (
    ComparedVersions,
    ElementDifference,
    KernelCounters,
    KernelReport,
    LineCounters,
    LineCoverage,
    MinimisedFailure,
    Replay,
)
from gpuemu_lsp.engine.findings import Finding, ModulePlace, Place, Range, Related, Severity
from gpuemu_lsp.engine.jobs.model import ArtifactReport
from gpuemu_lsp.engine.kernel_names import plain_name, without_arguments
from gpuemu_lsp.engine.plan.resolve import unregistered
from gpuemu_lsp.engine.project.files import problem
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.regular_file import file_bytes, file_text
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source import read, usual_include_dirs
from gpuemu_lsp.engine.source.model import EmbeddingModule, KernelDecl
from gpuemu_lsp.engine.source.python import read_python, read_variable
from gpuemu_lsp.engine.source.python.model import CudaFile, EmbeddedCuda, PythonSource, UnreadCuda
from gpuemu_lsp.engine.source.python.source_files import SourceFiles
from gpuemu_lsp.engine.subjects.languages import CUDA, language_of, language_of_entry
from gpuemu_lsp.engine.subjects.request import CheckRequest

SUFFIX = ".py"
_DEVICE_CODE = "__global__"
_LAUNCH_LINE = re.compile(r"(\blaunch of line )(\d+)")
"""The line of a launch in a message, in the text that the check reads; one in the module has its line already."""
_T = TypeVar("_T")
_KEPT_OPTIONS = ("-D", "-U", "-I", "--define-macro", "--undefine-macro", "--include-path", "-std=", "--std=")
_KEPT_FLAGS = frozenset({"-use_fast_math", "--use_fast_math", "-default-device", "--device-as-default-execution-space"})


def kernels_in_strings(
    path: str, text: str, registered: Sequence[KernelSpec] = ()
) -> tuple[list[KernelSpec], list[Finding]]:
    """Return the unregistered kernels that a ``.py`` compiles, and a finding for each call whose code is not known.

    The places of the specs are those of the kernels' names in the ``.py``, or in the ``.cu`` that it compiles.
    ``registered`` are the entries of gpuemu.toml.
    """
    source = read_python(path, text)
    specs: list[KernelSpec] = []
    taken = [(code_of(source, spec), plain_name(spec.entry or spec.name)) for spec in registered if spec.source == path]
    for index, cuda in enumerate(source.cuda):
        if cuda in source.cuda[:index]:
            continue
        include_dirs = usual_include_dirs(path, cuda.text.text)
        inner = read(path, cuda.text.text, include_dirs)
        wanted = {plain_name(entry) for entry in cuda.entries}
        for declaration in inner.kernels:
            if cuda.api == "RawKernel" and wanted and declaration.name not in wanted:
                continue
            only = len(inner.kernels) == 1
            if any(chosen == cuda and (only or name == declaration.name) for chosen, name in taken):
                continue
            spec = unregistered(inner, declaration, include_dirs)
            place = cuda.text.place(declaration.name_range, source.files)
            spec = replace(spec, string=index, compile_options=_nvrtc_options(cuda.options), places={"": place})
            specs += _instances(spec, declaration, cuda.entries)
    for file in source.cuda_files:
        specs += _in_file(file, [spec for spec in registered if spec.source == file.path])
    # Code that stands here, and of which nothing was read, must not look like code without findings.
    severity = Severity.WARNING if _DEVICE_CODE in text and not specs else Severity.HINT
    hints = [
        make(
            "engine/not-executed",
            f"The CUDA code of this {unread.api} was not checked: {unread.reason}.",
            Place(path, unread.range),
            severity=severity,
        )
        for unread in source.unread
    ]
    return specs, hints


def _instances(spec: KernelSpec, declaration: KernelDecl, entries: Sequence[str]) -> list[KernelSpec]:
    """Return one spec for each instance of a kernel template that the program names."""
    named = [one for one in entries if "<" in one and plain_name(one) == declaration.name]
    if not declaration.template or not named:
        return [spec]
    if len(named) == 1:
        return [replace(spec, entry=named[0])]
    return [replace(spec, name=one, entry=one) for one in named]


def _in_file(file: CudaFile, registered: Sequence[KernelSpec]) -> list[KernelSpec]:
    """Return the unregistered kernels of a file that PyTorch's ``load`` compiles."""
    try:
        text = file_text(file.path)
    except (OSError, UnicodeDecodeError):
        return []
    include_dirs = usual_include_dirs(file.path, text)
    inner = read(file.path, text, include_dirs)
    taken = {plain_name(spec.entry or spec.name) for spec in registered}
    if registered and len(inner.kernels) == 1:
        return []
    options = _nvrtc_options(file.options)
    return [
        replace(unregistered(inner, one, include_dirs), compile_options=options)
        for one in inner.kernels
        if one.name not in taken
    ]


def _nvrtc_options(options: Iterable[str]) -> tuple[str, ...]:
    """Return the options that determine what the code means; nvcc has others, which NVRTC does not accept."""
    return tuple(one for one in options if one.startswith(_KEPT_OPTIONS) or one in _KEPT_FLAGS)


@dataclass(frozen=True, slots=True)
class StringCheck:
    """One check of a kernel in a string: its request as that of a ``.cu`` file, and where results belong."""

    request: CheckRequest
    cuda: EmbeddedCuda
    files: SourceFiles

    def located(self, value: _T) -> _T:
        """Return a result of the check, such as a finding or a report, with its places in the ``.py``."""
        located: object = value
        if isinstance(value, ModulePlace):
            located = Place(value.path, value.range)
        elif isinstance(value, Place):
            located = self._place(value)
        elif isinstance(value, LineCoverage | LineCounters):
            located = self._of_line(value)
        elif isinstance(value, tuple):
            located = tuple(map(self.located, value))
        elif isinstance(
            value,
            ComparedVersions
            | ElementDifference
            | Finding
            | KernelReport
            | KernelCounters
            | ArtifactReport
            | Replay
            | MinimisedFailure
            | Related,
        ):
            parts = {one.name: getattr(value, one.name) for one in fields(value)}
            if isinstance(value, Finding) and self.request.module is None:
                parts["message"] = _LAUNCH_LINE.sub(self._launch_line, value.message)
            located = replace(value, **{name: self.located(part) for name, part in parts.items()})
        return cast(_T, located)

    def _launch_line(self, found: re.Match[str]) -> str:
        return f"{found[1]}{self._line(int(found[2]) - 1) + 1}"

    def _place(self, place: Place) -> Place:
        if place.path != self.request.spec.source:
            return place
        return self.cuda.text.place(place.range, self.files)

    def _of_line(self, line: LineCoverage | LineCounters) -> LineCoverage | LineCounters:
        if line.path != self.request.spec.source:
            return line
        if isinstance(line, LineCounters):
            return replace(line, line=self._line(line.line))
        ways = tuple(replace(way, to=self._to(way.to)) for way in line.ways)
        return replace(line, line=self._line(line.line), ways=ways)

    def _to(self, line: int | None) -> int | None:
        return None if line is None else self._line(line)

    def _line(self, line: int) -> int:
        return self.cuda.text.line(line, self.files)


def compiled_request(request: CheckRequest) -> tuple[CheckRequest, Callable[[_T], _T]]:
    """Return the request for the text that the compiler gets, and the function that places results in the file.

    They are the request itself and the identity for a kernel that is not in a string, or whose string is not known.
    """
    found = string_check(request)
    if isinstance(found, StringCheck):
        return found.request, found.located
    return request, lambda value: value


def string_check(request: CheckRequest) -> StringCheck | Finding | None:
    """Return the check of a kernel in a string, or the finding that says why there is none.

    None for a kernel that is not in a string of a ``.py``.
    """
    spec = request.spec
    if language_of_entry(spec) not in (None, CUDA) or not spec.source.endswith(SUFFIX):
        return None
    text = request.text
    if text is None:
        reason, text = problem(spec.source, want_folder=False), ""
        if reason is None:
            try:
                text = file_bytes(spec.source).decode("utf-8-sig")
            except (OSError, UnicodeDecodeError) as error:
                reason = f"cannot be read as UTF-8 text ({error})"
        if reason is not None:
            return _problem(spec, "config/missing-file", f"{_short(spec)} {reason}.")
    source = read_python(spec.source, text)
    if language_of(spec, source) != CUDA:
        return None
    cuda = code_of(source, spec)
    if isinstance(cuda, Finding):
        return cuda
    code = cuda.text.aligned(source.files)
    # An extension is launched by its own host code.
    launched = cuda in source.cuda and cuda.api != "load_inline"
    module = EmbeddingModule(text, source.cuda.index(cuda)) if launched else None
    inner = read(spec.source, code.text, spec.include_dirs)
    options = () if spec.string is not None else _nvrtc_options(cuda.options)
    spec = replace(spec, compile_options=(*options, *spec.compile_options))
    if "name" not in spec.places:
        named = without_arguments(spec.entry or spec.name)
        declared = next((one for one in inner.kernels if named in (one.qualified_name, one.name)), None)
        if declared is not None:
            spec = replace(spec, places={"": Place(spec.source, declared.name_range)})
    elif not spec.include_dirs:
        spec = replace(spec, include_dirs=usual_include_dirs(spec.source, code.text))
    request = replace(request, spec=spec, text=code.text, module=module)
    return StringCheck(request, replace(cuda, text=code), source.files)


def code_of(source: PythonSource, spec: KernelSpec) -> EmbeddedCuda | Finding:
    """Return the code that a spec is about, or the finding that says why it is not known."""
    if spec.string is not None:
        if spec.string < len(source.cuda):
            return source.cuda[spec.string]
        return _problem(spec, "engine/not-executed", f"'{spec.name}' was not checked: its string is no longer there.")
    if spec.variable is not None:
        return _of_variable(source, spec, spec.variable)
    with_kernel = [cuda for cuda in source.cuda if plain_name(spec.entry or spec.name) in _kernel_names(source, cuda)]
    candidates = with_kernel or list(source.cuda)
    if len({cuda.text.text for cuda in candidates}) == 1:
        return candidates[0]
    names = [name for cuda in candidates for name in cuda.variables[:1]]
    if candidates:
        have = f"{len(candidates)} strings with {'a kernel of this name' if with_kernel else 'CUDA code'}"
        example = f'source = "{_short(spec)}:{names[0]}"' if names else "assign each of them to a variable"
        return _problem(spec, "config/bad-value", f"{_short(spec)} has {have}. Select one: {example}.")
    if source.unread:
        reason = f"{source.unread[0].reason} (line {source.unread[0].range.start.line + 1})"
        return _problem(spec, "engine/not-executed", f"'{spec.name}' was not checked: {reason}.")
    message = (
        f"{_short(spec)} compiles no CUDA code from a string. For code in a variable, "
        f'write source = "{_short(spec)}:VARIABLE".'
    )
    return _problem(spec, "config/bad-value", message)


def variable_of(source: PythonSource, string: int) -> str | None:
    """Return the first variable with the code of a string, or with what is compiled from it, that has no other code."""
    if string >= len(source.cuda):
        return None
    own = source.cuda[string]
    others = [cuda for cuda in source.cuda if cuda.text != own.text]
    return next((name for name in own.variables if not any(name in cuda.variables for cuda in others)), None)


def _of_variable(source: PythonSource, spec: KernelSpec, name: str) -> EmbeddedCuda | Finding:
    found: list[EmbeddedCuda | UnreadCuda] = [cuda for cuda in source.cuda if name in cuda.variables]
    if not found:
        found += [unread for unread in source.unread if name in unread.variables]
    variable = read_variable(source, name) if not found else None
    found += [variable] if variable is not None else []
    known = [cuda for cuda in found if isinstance(cuda, EmbeddedCuda)]
    if len({cuda.text.text for cuda in known}) > 1:
        # Several functions may use one name for different code; the kernel may still be in one of them only.
        wanted = plain_name(spec.entry or spec.name)
        known = [cuda for cuda in known if wanted in _kernel_names(source, cuda)] or known
    if len({cuda.text.text for cuda in known}) == 1:
        return known[0]
    if known:
        lines = ", ".join(str(cuda.range.start.line + 1) for cuda in known)
        message = f"`{name}` is CUDA code of several calls in {_short(spec)} (lines {lines}); give each its own name."
        return _problem(spec, "config/bad-value", message)
    if found:
        assert isinstance(found[0], UnreadCuda)
        message = f"'{spec.name}' was not checked: {found[0].reason}."
        return _problem(spec, "engine/not-executed", message, Place(spec.source, found[0].range))
    calls: list[EmbeddedCuda | UnreadCuda] = [*source.cuda, *source.unread]
    variables = sorted({one for call in calls for one in call.variables})
    close = difflib.get_close_matches(name, variables, n=1)
    known_names = f"There are: {', '.join(variables)}." if variables else "It has no variable with CUDA code."
    hint = f"Did you mean `{close[0]}`?" if close else known_names
    message = f"{_short(spec)} assigns `{name}` no CUDA code, or more than once. {hint}"
    found_problem = _problem(spec, "config/bad-value", message)
    return replace(found_problem, data={"suggestion": close[0]}) if close else found_problem


def _kernel_names(source: PythonSource, cuda: EmbeddedCuda) -> set[str]:
    inner = read(source.path, cuda.text.text, usual_include_dirs(source.path, cuda.text.text))
    return {declaration.name for declaration in inner.kernels}


def _problem(spec: KernelSpec, rule: str, message: str, place: Place | None = None) -> Finding:
    place = place or spec.places.get("source") or spec.places.get("") or Place(spec.source, Range.of(0, 0, 0, 1))
    return make(rule, message, place, kernel=spec.name)


def _short(spec: KernelSpec) -> str:
    return Path(spec.source).name
