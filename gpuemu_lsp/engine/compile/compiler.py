"""Compilation of one request: options, headers, NVRTC with fallbacks, diagnostics, artifact."""

from __future__ import annotations

import contextlib
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path

from gpuemu_lsp.engine.cause import Cause, ErrorTrait
from gpuemu_lsp.engine.compile import diagnostics, messages, ptxas
from gpuemu_lsp.engine.compile.assembler import AssemblerError, assembler_options
from gpuemu_lsp.engine.compile.cache import DiskCache, default_folder, key_of
from gpuemu_lsp.engine.compile.error_traits import traits_of
from gpuemu_lsp.engine.compile.fallback_causes import (
    conflicts_with_prelude,
    error_count,
    has_cxx20_syntax,
    needs_device_runtime,
    only_kernel,
)
from gpuemu_lsp.engine.compile.include_closure import IncludeClosure, user_includes
from gpuemu_lsp.engine.compile.machine_code import AssemblyCache
from gpuemu_lsp.engine.compile.model import Artifact, CompileRequest, CompileResult
from gpuemu_lsp.engine.compile.options import NvrtcOptions, read_options
from gpuemu_lsp.engine.compile.preamble import Preamble, preamble
from gpuemu_lsp.engine.compile.program import NvrtcOutput, build
from gpuemu_lsp.engine.compile.scratch import line_directive, scratch
from gpuemu_lsp.engine.compile.toolchain import architectures, cuda_include_dirs, toolchain
from gpuemu_lsp.engine.findings import Finding, Place, Range, Severity
from gpuemu_lsp.engine.ptx.slicing import module_text
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.headers.hip import WAVEFRONT, is_own_header

_LOCK = threading.Lock()
"""The header mirror and the precompiled headers belong to the process, so compilations are serialised."""

_SEPARATE = "--relocatable-device-code=true"

_OF_PYTORCH = re.compile(r"\bc10::")
"""A template argument that is a type of PyTorch, which the text need not name itself."""

_UNREADABLE_PREFIX = "cannot open precompiled header file"


@dataclass(frozen=True, slots=True)
class _Compilation:
    """A request with its options read, its include closure, and the user's include directories."""

    request: CompileRequest
    options: NvrtcOptions
    includes: IncludeClosure
    origin: Place
    folders: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Program:
    """Output of a program, its log's messages, and the reason for each name expression that is not a kernel."""

    output: NvrtcOutput
    messages: tuple[messages.CompilerMessage, ...]
    unknown: Mapping[str, str]


@dataclass(slots=True)
class CompileSession:
    """Programs and include closures of one file's kernels, which are compiled in turn; no file may change meanwhile."""

    programs: dict[tuple[object, ...], _Program] = field(default_factory=dict)
    closures: dict[tuple[object, ...], IncludeClosure] = field(default_factory=dict)


def compile_source(
    request: CompileRequest, cache: DiskCache | None = None, session: CompileSession | None = None
) -> CompileResult:
    """Compile a device view with NVRTC, to PTX and cubin in one call.

    A name expression that matches no kernel is a finding; the others are still compiled. Outputs are stored in
    ``cache`` (default: the user's cache directory), diagnostics are derived from the log each time. ``session`` saves
    the other kernels of a file all work that they have in common.

    Raises
    ------
    ToolchainError
        If NVRTC or CUDA's headers are not installed.
    """
    start = time.perf_counter()
    session = session or CompileSession()
    compilation = _compilation(request, session)
    store = cache if cache is not None else _default_cache()
    if unusable := _invalid_request(compilation):
        return CompileResult(None, unusable)
    with _LOCK:
        program = _program(compilation, store, session)
    output = program.output
    sources = diagnostics.DiagnosticSources(
        request.path, compilation.origin, request.options_place or compilation.origin, compilation.includes
    )
    missing = (
        _unknown(item, why, compilation.origin) for item, why in program.unknown.items() if item in request.expressions
    )
    found = (*missing, *diagnostics.findings(program.messages, sources))
    if not output.succeeded and not any(_explains_failure(item) for item in found):
        message = f"{toolchain()} failed: {_last_line(output.log)}"
        found = (*found, make("compile/error", message, compilation.origin, traits=traits_of(message)))
    return CompileResult(
        artifact=_artifact(compilation, output) if output.succeeded else None,
        findings=_with_architecture(found, request),
        log=output.log,
        milliseconds=(time.perf_counter() - start) * 1e3,
        include_closure=tuple(compilation.includes.included_at),
    )


def _unknown(entry: str, why: str, origin: Place) -> Finding:
    """Return the finding about an entry that does not name a kernel: the file lacks the name, or has several of it."""
    undeclared = ErrorTrait.UNDECLARED in traits_of(why)
    cause = Cause.EXCLUDED if undeclared else Cause.UNKNOWN_INSTANCE
    return make("compile/missing-entry", f"`{entry}` is not a kernel of this file: {why}", origin, cause=cause)


def warm_up() -> Iterator[None]:
    """Load NVRTC and precompile the preambles of most kernels; yields after each step.

    Processes that are forked from this one inherit both and compile their first kernel three times as fast.
    """
    for header in ("", "#include <cuda_fp16.h>\n"):
        request = CompileRequest("/nothing.cu", f"{header}__global__ void nothing() {{}}\n")
        compilation = _compilation(request, CompileSession())
        scratch().precompile(preamble(compilation.includes), _options(compilation))
        yield


@cache
def _default_cache() -> DiskCache:
    return DiskCache(default_folder())


def _compilation(request: CompileRequest, session: CompileSession) -> _Compilation:
    # Relative include options are relative to the file they are written in, gpuemu.toml.
    base = request.options_place.path if request.options_place is not None else request.path
    options = read_options(request.options, str(Path(base).parent))
    folders = tuple(dict.fromkeys((*request.include_dirs, *options.include_dirs)))
    # A byte order mark is invalid after the preamble; three spaces keep the columns of its line.
    text = " " * 3 + request.text[1:] if request.text.startswith("\ufeff") else request.text
    request = replace(request, text=text)
    origin = request.origin or Place(request.path, Range.of(0, 0, 0, 0))
    own = tuple(folder for folder in folders if not _is_system(folder))
    key = (request.path, text, own, tuple(request.headers.items()))
    if key not in session.closures:
        session.closures[key] = user_includes(request.path, text, own, request.headers)
    return _Compilation(request, options, session.closures[key], origin, own)


def _is_system(folder: str) -> bool:
    """Return whether a directory is the C library's or a CUDA toolkit's, whose headers conflict with NVRTC's."""
    return any((Path(folder) / name).is_file() for name in ("features.h", "cuda_runtime_api.h"))


def _invalid_request(compilation: _Compilation) -> tuple[Finding, ...]:
    """Return findings about refused options and unknown architectures."""
    place = compilation.request.options_place or compilation.origin
    found = [
        make("config/bad-value", f"unsupported compile option `{option}`: it changes the kind of output", place)
        for option in compilation.options.refused
    ]
    number = compilation.request.arch.removeprefix("sm_").rstrip("af")
    if not compilation.request.arch.startswith("sm_") or not number.isdigit() or int(number) not in architectures():
        known = ", ".join(f"sm_{item}" for item in architectures())
        message = f"unsupported architecture `{compilation.request.arch}`: {toolchain()} supports {known}"
        found.append(make("config/bad-value", message, compilation.origin))
    return tuple(found)


def _program(compilation: _Compilation, store: DiskCache, session: CompileSession) -> _Program:
    """Build the program of all kernels of the file, or, if one of the others does not compile, of this one's alone."""
    request = compilation.request
    own = request.expressions
    # In one order, so that all kernels of the file have the same program.
    everything = tuple(sorted({*own, *request.program}))
    if len(everything) > len(own):
        program = _built(compilation, everything, store, session)
        if not program.output.succeeded:
            # Without name expressions no template is instantiated: what fails even then fails for every kernel.
            program = _built(compilation, (), store, session)
        if not program.output.succeeded or program.output.lowered.keys() | program.unknown.keys() >= {*own}:
            return program
    return _built(compilation, own, store, session)


def _built(
    compilation: _Compilation, expressions: tuple[str, ...], store: DiskCache, session: CompileSession
) -> _Program:
    request = replace(compilation.request, expressions=expressions)
    headers = tuple(request.headers.items())
    key = (request.path, request.text, request.arch, request.optimize, expressions, compilation.options, headers)
    if key not in session.programs:
        compilation = replace(compilation, request=request)
        output, unknown = _build_with_fallbacks(compilation, store)
        read_messages = _with_source_lines(compilation, output, messages.parse(output.log))
        session.programs[key] = _Program(output, read_messages, unknown)
    return session.programs[key]


def _build_with_fallbacks(compilation: _Compilation, store: DiskCache) -> tuple[NvrtcOutput, Mapping[str, str]]:
    """Build, and on failure repeat without causes that are not the user's; also return unknown name expressions.

    A language standard or linkage that the user did not choose is taken only if it compiles without errors; otherwise
    the errors of the chosen configuration are reported.
    """
    prefix = _preamble(compilation)
    output = _build_cached(compilation, prefix, compilation.request.expressions, store)
    if not output.succeeded and not compilation.options.standard_given and has_cxx20_syntax(compilation.request.text):
        newer = replace(compilation, options=replace(compilation.options, standard="c++20"))
        if (other := _build_cached(newer, prefix, compilation.request.expressions, store)).succeeded:
            return other, {}
    if needs_device_runtime(output):
        linked = replace(
            compilation, options=replace(compilation.options, passed=(*compilation.options.passed, _SEPARATE))
        )
        if (other := _build_cached(linked, prefix, compilation.request.expressions, store)).succeeded:
            return other, {}
    if conflicts_with_prelude(output):
        # The prelude's conflicting names may be in its 64-bit integers only, or anywhere; the attempt with the fewest
        # errors is reported if none succeeds.
        tried = [(output, prefix)]
        for attempt in (_preamble(compilation, long_long=True), _preamble(compilation, bare=True)):
            tried.append((_build_cached(compilation, attempt, compilation.request.expressions, store), attempt))
            if tried[-1][0].succeeded:
                break
        output, prefix = min(tried, key=lambda item: (conflicts_with_prelude(item[0]), error_count(item[0])))
    bad = (
        {}
        if output.succeeded
        else diagnostics.bad_expressions(messages.parse(output.log), compilation.request.expressions)
    )
    if not bad:
        return output, {}
    good = tuple(item for item in compilation.request.expressions if item not in bad)
    output = _build_cached(compilation, prefix, good, store)
    overloaded = {item: entry for item in bad if (entry := only_kernel(output.ptx, item)) is not None}
    output = replace(output, lowered={**output.lowered, **overloaded})
    unknown = {item: why for item, why in bad.items() if item not in overloaded}
    return output, unknown if output.succeeded else {}  # with errors, unresolved names are consequences


def _preamble(compilation: _Compilation, *, long_long: bool = False, bare: bool = False) -> Preamble:
    pytorch = any(_OF_PYTORCH.search(item) for item in compilation.request.expressions)
    return preamble(compilation.includes, pytorch=pytorch, long_long=long_long, bare=bare)


def _build_cached(
    compilation: _Compilation, prefix: Preamble, expressions: Sequence[str], store: DiskCache
) -> NvrtcOutput:
    key = key_of(
        (
            toolchain(),
            *cuda_include_dirs(),
            "\0".join(prefix.headers.values()),
            prefix.text,
            compilation.request.arch,
            str(compilation.request.optimize),
            compilation.options.standard,
            "\0".join(compilation.options.passed),
            "\0".join(compilation.folders),
            "\0".join(expressions),
            *(part for item in compilation.includes.texts.items() for part in item),
        )
    )
    output = None if compilation.includes.computed else store.load(key)
    if output is None:
        output = _build_incrementally(compilation, prefix, expressions, store)
        # A missing header may appear later, and headers of a computed include are not part of the key.
        if output.succeeded and not compilation.includes.computed:
            store.store(key, output)
    return output


def _build_incrementally(
    compilation: _Compilation, prefix: Preamble, expressions: Sequence[str], store: DiskCache
) -> NvrtcOutput:
    """Build, without assembling again what was assembled before if it is much code."""
    request, passed = compilation.request, compilation.options.passed
    if not request.optimize:
        # Unoptimised code is emulated only, and nothing of ptxas' report is of interest.
        return _build(_for_virtual_architecture(compilation), prefix, expressions)
    assemblies = AssemblyCache.of(store.reports, request.path, request.arch, passed)
    if assemblies.useful:
        with contextlib.suppress(AssemblerError):
            output = _build(_for_virtual_architecture(compilation), prefix, expressions)
            return assemblies.assembled(output) if output.succeeded else output
    output = _build(compilation, prefix, expressions)
    if output.succeeded:
        assemblies.record(output)
    return output


def _for_virtual_architecture(compilation: _Compilation) -> _Compilation:
    arch = compilation.request.arch.replace("sm_", "compute_")
    return replace(compilation, request=replace(compilation.request, arch=arch))


def _build(compilation: _Compilation, prefix: Preamble, expressions: Sequence[str]) -> NvrtcOutput:
    place = scratch()
    headers = [path for path in compilation.includes.texts if path != compilation.request.path]
    for path in headers:
        place.mirror(path, compilation.includes.texts[path])
    place.remove_others(headers)
    options = _options(compilation)
    folder = str(Path(compilation.request.path).parent)
    name = compilation.request.path
    if headers:
        place.make_directory(compilation.request.path)
        name = place.mirror_path(compilation.request.path)
        own_dirs = sorted(compilation.includes.search_dirs - set(compilation.folders))
        mirror_path = [
            place.mirror_path(item)
            for item in (*compilation.folders, *own_dirs)
            if item in compilation.includes.search_dirs
        ]
        # Headers of computed includes are not in the mirror; the real directories come after it.
        behind = [folder, *compilation.folders] if compilation.includes.computed else []
        options = (*options, *(f"--include-path={item}" for item in (*mirror_path, *behind)))
    elif compilation.includes.computed:
        options = (*options, *(f"--include-path={item}" for item in compilation.folders))
    text = prefix.text + line_directive(compilation.request.path) + compilation.request.text
    precompiled = place.prefix_options(prefix, options)
    output = build(text, name, (*options, *precompiled), expressions, prefix.headers)
    if not output.succeeded and _UNREADABLE_PREFIX in output.log:
        place.reset_prefixes()
        output = build(text, name, options, expressions, prefix.headers)
    return output


def _with_source_lines(
    compilation: _Compilation, output: NvrtcOutput, found: tuple[messages.CompilerMessage, ...]
) -> tuple[messages.CompilerMessage, ...]:
    """Map ptxas' errors in inline assembly, which refer to PTX lines, to source lines.

    NVRTC returns no PTX after a ptxas error, so the text is compiled again for the virtual architecture, without ptxas.
    """
    if not any(message.ptx_line for message in found):
        return found
    ptx = output.ptx
    if not ptx:
        prefix = _preamble(compilation)
        ptx = _build(_for_virtual_architecture(compilation), prefix, compilation.request.expressions).ptx
    positions = ptxas.source_lines(ptx)
    return tuple(
        replace(message, position=positions.get(message.ptx_line)) if message.ptx_line else message for message in found
    )


def _options(compilation: _Compilation) -> tuple[str, ...]:
    return (
        f"--gpu-architecture={compilation.request.arch}",
        f"--std={compilation.options.standard}",
        "--device-as-default-execution-space",
        "--device-int128",
        "--ptxas-options=-v",
        "-lineinfo" if compilation.request.optimize else "--device-debug",
        *compilation.options.passed,
        *(f"--include-path={folder}" for folder in cuda_include_dirs()),
    )


def _artifact(compilation: _Compilation, output: NvrtcOutput) -> Artifact:
    """Return the artifact of the requested kernels: the program may have others, which are cut out of the PTX."""
    request = compilation.request
    entries = {item: output.lowered[item] for item in request.expressions if item in output.lowered}
    return Artifact(
        path=request.path,
        arch=request.arch,
        ptx=module_text(output.ptx).slice(entries.values()) if entries else output.ptx,
        cubin=output.cubin,
        entries=entries,
        resources=ptxas.resources(output.log, output.ptx),
        toolchain=toolchain(),
        assembler_options=assembler_options(compilation.options.passed),
        debug_sections="" if request.optimize else module_text(output.ptx).debug_sections,
        wavefront=WAVEFRONT if any(map(is_own_header, compilation.includes.texts)) else 32,
    )


def _explains_failure(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR or finding.rule == "engine/unsupported-instruction"


def _last_line(log: str) -> str:
    lines = [line.strip() for line in log.split("\n") if line.strip()]
    return lines[-1] if lines else "no message"


def _with_architecture(found: Sequence[Finding], request: CompileRequest) -> tuple[Finding, ...]:
    return tuple(replace(item, arch=request.arch) for item in found)
