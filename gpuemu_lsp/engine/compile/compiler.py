"""Compile one request: the page that ties options, headers, NVRTC, the log and the report together."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

from gpuemu_lsp.engine.compile import diagnostics, messages, ptxas
from gpuemu_lsp.engine.compile.cache import DiskCache, default_folder, key_of
from gpuemu_lsp.engine.compile.include_closure import IncludeClosure, closure
from gpuemu_lsp.engine.compile.model import Artifact, CompileRequest, CompileResult
from gpuemu_lsp.engine.compile.options import NvrtcOptions, read
from gpuemu_lsp.engine.compile.preamble import PRELUDE, Preamble, preamble
from gpuemu_lsp.engine.compile.program import NvrtcOutput, build
from gpuemu_lsp.engine.compile.scratch import line_directive, scratch
from gpuemu_lsp.engine.compile.toolchain import architectures, cuda_include_dirs, toolchain
from gpuemu_lsp.engine.findings import Finding, Place, Range, Severity
from gpuemu_lsp.engine.rules import make

_LOCK = threading.Lock()
"""The mirror and NVRTC's precompiled prefixes are one process's own: one compilation at a time."""

_NEWER = re.compile(
    r"\b(?:concept|requires|consteval|constinit|likely|unlikely)\b|[{,]\s*\.\w+\s*=|<=>|\]\s*<\s*(?:class|typename)"
)
"""Signs of C++20. nvcc's host compiler takes some of it (``{.a = 1}``) under older standards too."""

_DEVICE_RUNTIME = re.compile(r'separate compilation mode|^identifier "cuda[A-Z]\w+" is undefined')
_SEPARATE = "--relocatable-device-code=true"

_UNREADABLE_PREFIX = "cannot open precompiled header file"


@dataclass(frozen=True, slots=True)
class _Compilation:
    """A request with everything read that the compiler will need."""

    request: CompileRequest
    options: NvrtcOptions
    found: IncludeClosure
    origin: Place
    folders: tuple[str, ...]


def compile_source(request: CompileRequest, cache: DiskCache | None = None) -> CompileResult:
    """Compile a device view with NVRTC, to PTX and cubin in one call.

    Name expressions that fit no kernel are findings of their own; the others still compile. Products are kept in
    ``cache`` (by default one in the user's cache folder), diagnostics are always made anew.

    Raises
    ------
    ToolchainError
        If NVRTC or CUDA's headers are absent.
    """
    start = time.perf_counter()
    job = _job(request)
    store = cache if cache is not None else _default_cache()
    if unusable := _unusable(job):
        return CompileResult(None, unusable)
    with _LOCK:
        product, missing = _build_with_fallbacks(job, store)
        read_messages = _with_source_lines(job, messages.parse(product.log))
    sources = diagnostics.DiagnosticSources(request.path, job.origin, request.options_place or job.origin, job.found)
    found = (*missing, *diagnostics.findings(read_messages, sources))
    if not product.succeeded and not any(_says_why(item) for item in found):
        found = (*found, make("compile/error", f"{toolchain()} failed: {_last_line(product.log)}", job.origin))
    return CompileResult(
        artifact=_artifact(request, product) if product.succeeded else None,
        findings=_placed(found, request),
        log=product.log,
        milliseconds=(time.perf_counter() - start) * 1e3,
        include_closure=tuple(job.found.included_at),
    )


def warm_up() -> Iterator[None]:
    """Have NVRTC's first use behind us, and read what nearly every kernel begins with; yields after each step.

    Processes forked from this one compile their first kernel three times as fast.
    """
    for header in ("", "#include <cuda_fp16.h>\n"):
        job = _job(CompileRequest("/nothing.cu", f"{header}__global__ void nothing() {{}}\n"))
        scratch().precompile(preamble(job.found), _options(job))
        yield


@cache
def _default_cache() -> DiskCache:
    return DiskCache(default_folder())


def _job(request: CompileRequest) -> _Compilation:
    base = request.options_place.path if request.options_place is not None else request.path
    options = read(request.options, str(Path(base).parent))
    folders = tuple(dict.fromkeys((*request.include_dirs, *options.include_dirs)))
    text = " " * 3 + request.text[1:] if request.text.startswith("\ufeff") else request.text
    request = replace(request, text=text)
    origin = request.origin or Place(request.path, Range.of(0, 0, 0, 0))
    own = tuple(folder for folder in folders if not _is_system(folder))
    return _Compilation(request, options, closure(request.path, text, own, request.headers), origin, own)


def _is_system(folder: str) -> bool:
    """Folders of the host's C library or of another CUDA: their headers would fight with NVRTC's."""
    return any((Path(folder) / name).is_file() for name in ("features.h", "cuda_runtime_api.h"))


def _unusable(job: _Compilation) -> tuple[Finding, ...]:
    """Say what makes the request itself impossible."""
    place = job.request.options_place or job.origin
    found = [
        make("config/bad-value", f"the compile option `{option}` would change the kind of output", place)
        for option in job.options.refused
    ]
    number = job.request.arch.removeprefix("sm_").rstrip("af")
    if not job.request.arch.startswith("sm_") or not number.isdigit() or int(number) not in architectures():
        known = ", ".join(f"sm_{item}" for item in architectures())
        message = f"{toolchain()} does not know the architecture `{job.request.arch}`; it knows {known}"
        found.append(make("config/bad-value", message, job.origin))
    return tuple(found)


def _build_with_fallbacks(job: _Compilation, store: DiskCache) -> tuple[NvrtcOutput, tuple[Finding, ...]]:
    """Build; on failure leave out what is not the user's: bad name expressions, a prelude that gets in the way."""
    prefix = preamble(job.found)
    product = _build_cached(job, prefix, job.request.expressions, store)
    if not product.succeeded and not job.options.standard_given and _NEWER.search(job.request.text):
        newer = replace(job, options=replace(job.options, standard="c++20"))
        if (other := _build_cached(newer, prefix, job.request.expressions, store)).succeeded:
            return other, ()
    if _needs_device_runtime(product):
        linked = replace(job, options=replace(job.options, passed=(*job.options.passed, _SEPARATE)))
        if (other := _build_cached(linked, prefix, job.request.expressions, store)).succeeded:
            return other, ()
    if _blames_prelude(product):
        tried = [(product, prefix)]
        for attempt in (preamble(job.found, long_long=True), preamble(job.found, bare=True)):
            tried.append((_build_cached(job, attempt, job.request.expressions, store), attempt))
            if tried[-1][0].succeeded:
                break
        product, prefix = min(tried, key=lambda item: (_blames_prelude(item[0]), _errors(item[0])))
    bad = {} if product.succeeded else diagnostics.bad_expressions(messages.parse(product.log), job.request.expressions)
    if not bad:
        return product, ()
    good = tuple(item for item in job.request.expressions if item not in bad)
    product = _build_cached(job, prefix, good, store)
    overloaded = {item: entry for item in bad if (entry := _only_kernel(product.ptx, item)) is not None}
    product = replace(product, lowered={**product.lowered, **overloaded})
    missing = tuple(
        make("compile/missing-entry", f"`{item}` is not a kernel of this file: {why}", job.origin)
        for item, why in bad.items()
        if item not in overloaded
    )
    return product, missing if product.succeeded else ()  # in a file with errors, nobody can tell what is missing


def _only_kernel(ptx: str, name: str) -> str | None:
    """Return the mangled name of the one kernel ``name``: CUDA has functions ``norm`` and ``max`` of its own."""
    found = set(re.findall(rf"\.entry (_Z{len(name)}{re.escape(name)}\w*)", ptx))
    return found.pop() if len(found) == 1 else None


def _needs_device_runtime(product: NvrtcOutput) -> bool:
    """Return whether a kernel launches kernels or calls ``cuda...`` functions: NVRTC has both, but not by itself."""
    return not product.succeeded and any(
        message.kind == "error" and _DEVICE_RUNTIME.search(message.text) for message in messages.parse(product.log)
    )


def _errors(product: NvrtcOutput) -> int:
    return sum(message.kind == "error" for message in messages.parse(product.log)) if not product.succeeded else 0


def _blames_prelude(product: NvrtcOutput) -> bool:
    """Return whether some error has to do with our prelude: the user's file defines what it defines."""
    return not product.succeeded and any(
        message.kind == "error" and (PRELUDE in message.text or any(spot.path == PRELUDE for spot in message.spots()))
        for message in messages.parse(product.log)
    )


def _build_cached(job: _Compilation, prefix: Preamble, expressions: Sequence[str], store: DiskCache) -> NvrtcOutput:
    key = key_of(
        (
            toolchain(),
            *cuda_include_dirs(),
            "\0".join(prefix.headers.values()),
            prefix.text,
            job.request.arch,
            str(job.request.optimize),
            job.options.standard,
            "\0".join(job.options.passed),
            "\0".join(job.folders),
            "\0".join(expressions),
            *(part for item in job.found.texts.items() for part in item),
        )
    )
    product = None if job.found.computed else store.load(key)
    if product is None:
        product = _build(job, prefix, expressions)
        # A failure may be mended by a file that appears; a computed include is read behind our back.
        if product.succeeded and not job.found.computed:
            store.store(key, product)
    return product


def _build(job: _Compilation, prefix: Preamble, expressions: Sequence[str]) -> NvrtcOutput:
    place = scratch()
    headers = [path for path in job.found.texts if path != job.request.path]
    for path in headers:
        place.mirror(path, job.found.texts[path])
    place.forget_others(headers)
    options = _options(job)
    folder = str(Path(job.request.path).parent)
    name = job.request.path
    if headers:
        place.stand_in(job.request.path)
        name = place.mirrored(job.request.path)
        beside = sorted(job.found.through - set(job.folders))
        mirrored = [place.mirrored(item) for item in (*job.folders, *beside) if item in job.found.through]
        behind = [folder, *job.folders] if job.found.computed else []
        options = (*options, *(f"--include-path={item}" for item in (*mirrored, *behind)))
    elif job.found.computed:
        options = (*options, *(f"--include-path={item}" for item in job.folders))
    text = prefix.text + line_directive(job.request.path) + job.request.text
    precompiled = place.prefix_options(prefix, options)
    product = build(text, name, (*options, *precompiled), expressions, prefix.headers)
    if not product.succeeded and _UNREADABLE_PREFIX in product.log:
        place.forget_prefixes()
        product = build(text, name, options, expressions, prefix.headers)
    return product


def _with_source_lines(
    job: _Compilation, found: tuple[messages.CompilerMessage, ...]
) -> tuple[messages.CompilerMessage, ...]:
    """Give ptxas' complaints about inline assembly their source line: ptxas only knows lines of the PTX.

    A failed compilation keeps no PTX, so it is made once more for the virtual architecture, which ends before ptxas.
    """
    if not any(message.ptx_line for message in found):
        return found
    arch = job.request.arch.replace("sm_", "compute_")
    prefix = preamble(job.found)
    virtual = _build(replace(job, request=replace(job.request, arch=arch)), prefix, job.request.expressions)
    spots = ptxas.source_lines(virtual.ptx)
    return tuple(
        replace(message, spot=spots.get(message.ptx_line)) if message.ptx_line else message for message in found
    )


def _options(job: _Compilation) -> tuple[str, ...]:
    return (
        f"--gpu-architecture={job.request.arch}",
        f"--std={job.options.standard}",
        "--device-as-default-execution-space",
        "--device-int128",
        "--ptxas-options=-v",
        "-lineinfo" if job.request.optimize else "--device-debug",
        *job.options.passed,
        *(f"--include-path={folder}" for folder in cuda_include_dirs()),
    )


def _artifact(request: CompileRequest, product: NvrtcOutput) -> Artifact:
    return Artifact(
        path=request.path,
        arch=request.arch,
        ptx=product.ptx,
        cubin=product.cubin,
        entries=product.lowered,
        resources=ptxas.resources(product.log, product.ptx),
        toolchain=toolchain(),
    )


def _says_why(finding: Finding) -> bool:
    return finding.severity is Severity.ERROR or finding.rule == "engine/unsupported-instruction"


def _last_line(log: str) -> str:
    lines = [line.strip() for line in log.split("\n") if line.strip()]
    return lines[-1] if lines else "no message"


def _placed(found: Sequence[Finding], request: CompileRequest) -> tuple[Finding, ...]:
    return tuple(replace(item, arch=request.arch) for item in found)
