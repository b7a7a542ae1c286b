"""Compile errors that are not the user's: a header was not found, or a library's own headers do not compile here.

Behind an include that is not on disk, every name may be declared. An editor must not paint a correct file red for it,
so such errors become one finding on the include: not checked, which names are unknown, and what to do. What no header
can explain stays an error: whatever is wrong in a function that has no unknown name, and everything in a file whose
headers are all there. What nvcc compiles and NVRTC cannot is told in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpuemu_lsp.engine.compile import stub_headers
from gpuemu_lsp.engine.findings import Finding, Json, Place, Range
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source import DeviceViews, hidden_includes
from gpuemu_lsp.engine.source.model import Include

_UNKNOWN = re.compile(
    r'identifier ".+" is undefined|name followed by "::" must be|namespace ".+" has no|name must be a namespace name'
    r'|.+ is not a (?:class |variable |function )?template|incomplete type ".+" is not allowed|class ".+" has no member'
    r"|this declaration has no storage class|not a class or struct name|.+ has not been declared"
)
"""What the compiler says of a name that nobody declared. What follows from it is said in many ways."""
_NAMED = re.compile(r'"(?:class |struct |namespace )?([\w:]+)[^"]*"')
_FOLLOWS = re.compile(r"<error-type>|has already been defined")
"""Errors that an earlier one entails wherever they stand."""
_DEVICE_RUNTIME = re.compile(r'^identifier "(cuda[A-Z]\w+)" is undefined')
_HOST_CODE = re.compile(r"(?:torch|ATen|c10|caffe2)/|pybind11|Python\.h")
_MOST_NAMES = 4


@dataclass(frozen=True, slots=True)
class MissingHeader:
    """An include line whose header is not on disk, and where it stands."""

    place: Place
    include: Include

    @property
    def target(self) -> str:
        """Return the name of the header as it is written."""
        return self.include.target

    def may_declare(self, name: str) -> bool:
        """Say whether a name can come from this header. Of a library's host side only names with its prefix can."""
        return self.target not in stub_headers() or self.suggests(name)

    def suggests(self, name: str) -> bool:
        """Say whether a name begins like the header's: ``cudnnHandle_t`` and ``cudnn.h``."""
        stem = re.match(r"[a-z]+", PurePosixPath(self.target).name.lower())
        return stem is not None and name.lower().startswith(stem[0])


def without_cascades(findings: Sequence[Finding], views: DeviceViews, include_dirs: Sequence[str]) -> Iterator[Finding]:
    """Yield the findings of a compilation, with one instead of all those that are not due to the user's code.

    ``views`` are those of the compiled file.
    """
    missing = [
        MissingHeader(Place(file.path, include.range), include)
        for file in views.files
        for include in hidden_includes(file.text, file.path, include_dirs)
    ]
    errors = [finding for finding in findings if finding.rule == "compile/error"]
    limits = {id(finding): limit for finding in errors if (limit := _limit(finding, views)) is not None}
    libraries = [finding for finding in errors if "library" in finding.data]
    unknown = [finding for finding in errors if finding not in libraries and _UNKNOWN.match(finding.message)]
    names = {id(finding): _name(finding, views) for finding in unknown if id(finding) not in limits}
    roots = [
        finding
        for finding in unknown
        if id(finding) in names and any(header.may_declare(names[id(finding)]) for header in missing)
    ]
    excused = [*(unknown if libraries else roots), *libraries, *(item for item in errors if id(item) in limits)]
    infected = {_item(finding, views) for finding in excused}
    explained = {id(finding) for finding in excused}
    if excused:
        explained |= {id(item) for item in errors if _FOLLOWS.search(item.message) or _spills(item, views)}
        explained |= {id(item) for item in findings if _item(item, views) in infected}
    for limit in dict.fromkeys(limits.values()):
        yield from _not_possible(limit, [finding for finding in errors if limits.get(id(finding)) == limit], views)
    if roots:
        yield _not_found(missing, list(dict.fromkeys(names[id(finding)] for finding in roots)))
    elif libraries:
        yield _not_compiled(libraries[0])
    yield from (finding for finding in findings if id(finding) not in explained)


def _limit(finding: Finding, views: DeviceViews) -> str | None:
    """Return what NVRTC lacks, where an error is due to that: code that nvcc compiles, or did before CUDA 12."""
    if _DEVICE_RUNTIME.match(finding.message):
        return "NVRTC does not have {names} of nvcc's device runtime"
    if finding.message.startswith("dynamic initialization is not supported") and not _marked(finding, views):
        return "NVRTC computes no constants of a file at run time: write `constexpr`"
    if _UNKNOWN.match(finding.message):
        name = re.escape(_name(finding, views))
        reference = re.compile(rf"\btexture\s*<[^;]*>\s*{name}\s*;")
        if any(reference.search(file.text.code) for file in views.files):
            return "CUDA 12 removed texture references like {names}: use texture objects"
    return None


def _marked(finding: Finding, views: DeviceViews) -> bool:
    """Say whether the variable an error stands on is the device's by its own words."""
    lines = [file.text.raw.split("\n") for file in views.files if file.path == finding.place.path]
    return not lines or bool(re.search(r"__(?:device|constant|shared)__", lines[0][finding.place.range.start.line]))


def _not_possible(limit: str, findings: Sequence[Finding], views: DeviceViews) -> Iterator[Finding]:
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(_name(finding, views) for finding in findings))
    yield make("engine/not-executed", f"Not checked: {limit.format(names=names)}.", findings[0].place)


def _not_found(missing: Sequence[MissingHeader], names: Sequence[str]) -> Finding:
    """Blame the header that is called like a name, if there is one, else all that are missing."""
    likely = [item for item in missing if any(item.suggests(name) for name in names)]
    able = [item for item in missing if any(item.may_declare(name) for name in names)]
    blamed = likely or able
    names = [name for name in names if any(item.suggests(name) for item in likely)] or names
    headers = list(dict.fromkeys(item.target for item in blamed))
    listed = ", ".join(f"`{name}`" for name in names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    told = f'header "{headers[0]}" was not found'
    if len(headers) > 1:
        told = f"{len(headers)} headers were not found ({', '.join(headers[:_MOST_NAMES])})"
    unknown = f"{listed} {'is' if len(names) == 1 else 'are'} unknown"
    message = f"Not checked: {told}, and {unknown} without {'it' if len(headers) == 1 else 'them'}. {_step(headers[0])}"
    data: dict[str, Json] = {"headers": [*headers], "names": [*names]}
    return make("engine/not-executed", message, blamed[0].place, data=data)


def _step(header: str) -> str:
    """Say what to do about a header."""
    if _HOST_CODE.match(header):
        return "It is host code that NVRTC cannot compile: keep the kernel in a file that does not need it."
    return "Name its folder in `include_dirs` of the kernel's entry in gpuemu.toml."


def _not_compiled(finding: Finding) -> Finding:
    library = finding.data["library"]
    message = (
        f"Not checked: the library's header {library} does not compile under NVRTC ({finding.message}). "
        "Keep the kernel in a file that does not include it."
    )
    return make("engine/not-executed", message, finding.place, data=finding.data, related=finding.related)


def _name(finding: Finding, views: DeviceViews) -> str:
    """Return the name an error is about: from the message, else the token it stands on."""
    named = _NAMED.search(finding.message)
    if named is not None and named[1] != "::":
        return named[1]
    file = next((file for file in views.files if file.path == finding.place.path), None)
    if file is None:
        return ""
    span = finding.place.range
    line = file.text.raw.split("\n")[span.start.line]
    return line[span.start.column : span.end.column]


def _spills(finding: Finding, views: DeviceViews) -> bool:
    """Say whether an error stands where the compiler saw no code: something before it never ended."""
    path, line = finding.place.path, finding.place.range.start.line
    view = views.headers.get(path, views.view if path == views.files[0].path else None)
    seen = view.split("\n")[line].strip() if view is not None else "?"
    return not seen or seen.startswith(("#", "//"))


def _item(finding: Finding, views: DeviceViews) -> tuple[str, Range | None]:
    """Return the top-level piece of code that an error stands in."""
    path, start = finding.place.path, finding.place.range.start
    for file in views.files:
        if file.path != path:
            continue
        for item in file.items.items:
            span = file.text.range(item.start, item.end)
            if span.start <= start < span.end:
                return path, span
    return path, None
