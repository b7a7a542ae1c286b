"""Compile errors that are not mistakes of the user: headers that were not found, and what NVRTC cannot compile.

An include whose header is not on disk may declare any name. Its consequences must not mark a correct file with errors,
so they become one finding on the include, with the unknown names and the next step. What no header can explain stays
an error: every error in a function without unknown names, and every error in a file whose headers are all present.
Code that nvcc compiles and NVRTC does not is reported in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpuemu_lsp.engine.build.python_packages import package_of
from gpuemu_lsp.engine.cause import Cause, ErrorTrait
from gpuemu_lsp.engine.compile.preamble import stub_headers
from gpuemu_lsp.engine.findings import Finding, Json, Place, Range, Severity
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source import DeviceViews, hidden_includes
from gpuemu_lsp.engine.source.headers.known_headers import is_torch_header
from gpuemu_lsp.engine.source.model import Include

_HOST_CODE = re.compile(r"pybind11|Python\.h")
_OF_TORCH = re.compile(r"(?:at|c10|torch|caffe2)(?:::|$)|(?:C10|AT|TORCH|THC|CUDA_KERNEL)_|gpuAtomic|WARP_")
_OPENS_TORCH = re.compile(r"\busing\s+namespace\s+(?:at|c10|torch)\b")
_MOST_NAMES = 4


@dataclass(frozen=True, slots=True)
class MissingHeader:
    """An include line whose header is not on disk; ``opens_torch``: a namespace of PyTorch needs no qualification."""

    place: Place
    include: Include
    opens_torch: bool = False

    @property
    def target(self) -> str:
        """The name of the header as it is written."""
        return self.include.target

    def may_declare(self, name: str) -> bool:
        """Return whether this header can declare a name; for host libraries, whether the name has their prefix."""
        if is_torch_header(self.target):
            return self.opens_torch or name.isupper() or bool(_OF_TORCH.match(name))
        return self.target not in stub_headers() or self.suggests(name)

    def suggests(self, name: str) -> bool:
        """Return whether a name begins like the header's, as ``cudnnHandle_t`` and ``cudnn.h``."""
        stem = re.match(r"[a-z]+", PurePosixPath(self.target).name.lower())
        return stem is not None and name.lower().startswith(stem[0])


def without_cascades(findings: Sequence[Finding], views: DeviceViews, include_dirs: Sequence[str]) -> Iterator[Finding]:
    """Yield the findings of a compilation with one finding in place of those that are not due to the user's code.

    ``views`` are those of the compiled file.
    """
    missing = list(_missing(views, include_dirs))
    errors = [finding for finding in findings if finding.rule == "compile/error"]
    limits = {id(finding): limit for finding in errors if (limit := _limit(finding, views)) is not None}
    libraries = [finding for finding in errors if "library" in finding.data]
    unknown = [finding for finding in errors if finding not in libraries and ErrorTrait.UNDECLARED in finding.traits]
    names = {id(finding): _name(finding, views) for finding in unknown if id(finding) not in limits}
    roots = [
        finding
        for finding in unknown
        if id(finding) in names and any(header.may_declare(names[id(finding)]) for header in missing)
    ]
    # A library's header that does not compile explains all unknown names; a missing one only those it may declare.
    excused = [*(unknown if libraries else roots), *libraries, *(item for item in errors if id(item) in limits)]
    # An unknown type makes the rest of its function unparsable, with errors of any kind.
    affected = {_item(finding, views) for finding in excused}
    explained = {id(finding) for finding in excused}
    if excused:
        explained |= {id(item) for item in errors if ErrorTrait.FOLLOWS in item.traits or _is_outside_code(item, views)}
        explained |= {id(item) for item in findings if _item(item, views) in affected}
    for limit in dict.fromkeys(limits.values()):
        yield from _unsupported(limit, [finding for finding in errors if limits.get(id(finding)) == limit], views)
    if roots:
        yield _not_found(missing, list(dict.fromkeys(names[id(finding)] for finding in roots)))
    elif libraries:
        yield _not_compiled(libraries[0])
    yield from (finding for finding in findings if id(finding) not in explained)


def left_out(views: DeviceViews, include_dirs: Sequence[str], registered: bool) -> Iterator[Finding]:
    """Yield a finding for each user header that was not found, in a file that compiled without it.

    What it declares may still matter: a macro that selects another branch, an overload, a specialisation. For a kernel
    that gpuemu.toml registers, a header in quotes is a warning; one in angle brackets may belong to a host library.
    """
    for header in _missing(views, include_dirs):
        target = header.target
        if target in stub_headers() or _HOST_CODE.match(target) or is_torch_header(target):
            continue
        severity = Severity.WARNING if registered and header.include.quoted else Severity.HINT
        message = f'Header "{target}" was not found, and the file was compiled without it. {_step(target)}'
        yield make("compile/missing-header", message, header.place, severity=severity, data={"header": target})


def _missing(views: DeviceViews, include_dirs: Sequence[str]) -> Iterator[MissingHeader]:
    opens_torch = any(_OPENS_TORCH.search(file.text.code) for file in views.files)
    for file in views.files:
        for include in hidden_includes(file.text, file.path, include_dirs):
            yield MissingHeader(Place(file.path, include.range), include, opens_torch)


_LIMITS = {
    Cause.DEVICE_RUNTIME: "NVRTC does not support {names} of the CUDA device runtime",
    Cause.DYNAMIC_INITIALIZATION: (
        "NVRTC does not support dynamic initialization at file scope: declare the constant `constexpr`"
    ),
    Cause.TEXTURE_REFERENCE: "CUDA 12 removed texture references like {names}: use texture objects",
}


def _limit(finding: Finding, views: DeviceViews) -> Cause | None:
    """Return the limit of NVRTC or CUDA 12 that an error is due to, None if it is due to none."""
    if ErrorTrait.DEVICE_RUNTIME in finding.traits:
        return Cause.DEVICE_RUNTIME
    if ErrorTrait.DYNAMIC_INITIALIZATION in finding.traits and not _is_device_variable(finding, views):
        return Cause.DYNAMIC_INITIALIZATION
    if ErrorTrait.UNDECLARED in finding.traits:
        name = re.escape(_name(finding, views))
        reference = re.compile(rf"\btexture\s*<[^;]*>\s*{name}\s*;")
        if any(reference.search(file.text.code) for file in views.files):
            return Cause.TEXTURE_REFERENCE
    return None


def _is_device_variable(finding: Finding, views: DeviceViews) -> bool:
    """Return whether the variable of an error is declared with a memory space specifier."""
    lines = [file.text.raw.split("\n") for file in views.files if file.path == finding.place.path]
    return not lines or bool(re.search(r"__(?:device|constant|shared)__", lines[0][finding.place.range.start.line]))


def _unsupported(limit: Cause, findings: Sequence[Finding], views: DeviceViews) -> Iterator[Finding]:
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(_name(finding, views) for finding in findings))
    message = f"Not checked: {_LIMITS[limit].format(names=names)}."
    yield make("engine/not-executed", message, findings[0].place, cause=limit)


def _not_found(missing: Sequence[MissingHeader], names: Sequence[str]) -> Finding:
    """Build one finding of the missing headers: those that unknown names begin like, else all that may declare them."""
    likely = [item for item in missing if any(item.suggests(name) for name in names)]
    able = [item for item in missing if any(item.may_declare(name) for name in names)]
    reported = likely or able
    names = [name for name in names if any(item.suggests(name) for item in likely)] or names
    headers = list(dict.fromkeys(item.target for item in reported))
    listed = ", ".join(f"`{name}`" for name in names[:_MOST_NAMES]) + (", ..." if len(names) > _MOST_NAMES else "")
    subject = f'header "{headers[0]}" was not found'
    if len(headers) > 1:
        subject = f"{len(headers)} headers were not found ({', '.join(headers[:_MOST_NAMES])})"
    unknown = f"{listed} {'is' if len(names) == 1 else 'are'} unknown"
    message = (
        f"Not checked: {subject}, and {unknown} without {'it' if len(headers) == 1 else 'them'}. {_step(headers[0])}"
    )
    data: dict[str, Json] = {"headers": [*headers], "names": [*names]}
    return make("engine/not-executed", message, reported[0].place, data=data)


def _step(header: str) -> str:
    """Return the next step for a missing header."""
    if _HOST_CODE.match(header):
        return "It is host code that NVRTC cannot compile: keep the kernel in a file that does not need it."
    if is_torch_header(header):
        return (
            "It is a header of PyTorch, of which only the usual device code is known: keep the kernel in another file."
        )
    package = package_of(header)
    if package is not None:
        return f"Install the package that contains it into the project's Python: pip install {package}"
    return "Add its folder to `include_dirs` of `[build]` in gpuemu.toml."


def _not_compiled(finding: Finding) -> Finding:
    library = finding.data["library"]
    message = (
        f"Not checked: the library's header {library} does not compile under NVRTC ({finding.message}). "
        "Keep the kernel in a file that does not include it."
    )
    return make("engine/not-executed", message, finding.place, data=finding.data, related=finding.related)


def _name(finding: Finding, views: DeviceViews) -> str:
    """Return the name an error is about: that which the compiler quotes, else the token at its place."""
    if isinstance(quoted := finding.data.get("name"), str):
        return quoted
    file = next((file for file in views.files if file.path == finding.place.path), None)
    if file is None:
        return ""
    span = finding.place.range
    line = file.text.raw.split("\n")[span.start.line]
    return line[span.start.column : span.end.column]


def _is_outside_code(finding: Finding, views: DeviceViews) -> bool:
    """Return whether an error is at a line without code: an earlier construct is not terminated."""
    path, line = finding.place.path, finding.place.range.start.line
    view = views.headers.get(path, views.view if path == views.files[0].path else None)
    seen = view.split("\n")[line].strip() if view is not None else "?"
    return not seen or seen.startswith(("#", "//"))


def _item(finding: Finding, views: DeviceViews) -> tuple[str, Range | None]:
    """Return the file and the range of the top-level declaration that contains a finding."""
    path, start = finding.place.path, finding.place.range.start
    for file in views.files:
        if file.path != path:
            continue
        for item in file.items.items:
            span = file.text.range(item.start, item.end)
            if span.start <= start < span.end:
                return path, span
    return path, None
