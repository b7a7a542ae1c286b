"""Measure one compiled kernel against its ``artifact_checks``: the facts, before anyone words them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.findings import Json, Place
from gpuemu_lsp.engine.lint.code import Code, whole_file
from gpuemu_lsp.engine.lint.search import Hit, Search
from gpuemu_lsp.engine.lint.trace import trace
from gpuemu_lsp.engine.project.model import ArtifactChecks, KernelSpec
from gpuemu_lsp.engine.ptx import PtxError, parse
from gpuemu_lsp.engine.ptx.facts import instructions_of
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.ptx.names import source_name
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile

_DEFINE = re.compile(r"(?:-D|--define-macro[= ])\s*(\w+)")


@dataclass(frozen=True, slots=True)
class LimitCheck:
    """A resource, its measured value and its limit (None when nobody set one). ``parts`` explain a sum."""

    rule: str
    key: str
    title: str
    unit: str
    value: int
    limit: int | None
    parts: dict[str, Json] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the value keeps the limit."""
        return self.limit is None or self.value <= self.limit


@dataclass(frozen=True, slots=True)
class PatternCheck:
    """A pattern and where it is met. ``index`` is its place in its list in gpuemu.toml.

    ``decided`` is False when its absence cannot be seen in PTX.
    """

    pattern: str
    required: bool
    index: int
    hits: tuple[Hit, ...]
    decided: bool = True

    @property
    def ok(self) -> bool:
        """Whether a required pattern is there, or a forbidden one is not."""
        return bool(self.hits) == self.required


@dataclass(frozen=True, slots=True)
class Inspection:
    """What was measured of one kernel.

    ``name`` is the expression it was compiled for, ``place`` its name in the source. ``unchecked`` are the reasons why
    a part of the configured checks could not be made.
    """

    kernel: str
    name: str
    place: Place
    limits: tuple[LimitCheck, ...]
    patterns: tuple[PatternCheck, ...]
    configured: bool
    unchecked: tuple[str, ...] = ()


def inspect(artifact: Artifact, entry: str, spec: KernelSpec, source: SourceFile) -> Inspection:
    """Measure a kernel.

    Parameters
    ----------
    artifact
        The compiled file.
    entry
        The kernel's mangled name in it.
    spec
        Its configuration.
    source
        The .cu file it stands in.
    """
    checks = spec.artifact_checks
    name = next((expression for expression, symbol in artifact.entries.items() if symbol == entry), spec.name)
    unchecked: list[str] = []
    limits = tuple(_limits(artifact, entry, checks))
    if checks is not None and not limits:
        unchecked.append("ptxas reported no resources for it, so its limits were not checked")
    module: Module | None = None
    try:
        module = parse(artifact.ptx)
    except PtxError as error:
        if checks is not None and (checks.required_patterns or checks.forbidden_patterns):
            unchecked.append(f"its PTX cannot be read, so its patterns were not checked ({error})")
    if module is not None and entry not in module.functions:
        module = None
        unchecked.append(f"the artifact has no kernel '{entry}'")
    code = Code(source, spec.include_dirs, _defined(spec))
    kernel = find_kernel(module, entry, source)
    patterns: tuple[PatternCheck, ...] = ()
    if module is not None and checks is not None:
        search = Search(trace(module, entry), code, kernel or _plain(entry))
        patterns = tuple(_patterns(search, checks))
    if kernel is not None:
        place = Place(source.path, kernel.name_range)
    else:
        place = code.kernel_place(_plain(entry)) or spec.places.get("name") or whole_file(source.path)
    return Inspection(spec.name, name, place, limits, patterns, checks is not None, tuple(unchecked))


def find_kernel(module: Module | None, entry: str, source: SourceFile) -> KernelDecl | None:
    """Return the kernel's declaration: of those with its name, the one its instructions come from."""
    named = [kernel for kernel in source.kernels if source_name(entry) in (kernel.name, kernel.qualified_name)]
    named = named or [kernel for kernel in source.kernels if kernel.name == _plain(entry)]
    if module is not None and len(named) > 1:
        for instruction in instructions_of(module.functions[entry]):
            location = instruction.location
            while location is not None and location.inlined_at is not None:
                location = location.inlined_at
            if location is None or module.files.get(location.file) != source.path:
                continue
            for kernel in named:
                if kernel.range.start.line <= location.line - 1 <= kernel.range.end.line:
                    return kernel
    return named[0] if named else None


def _limits(artifact: Artifact, entry: str, checks: ArtifactChecks | None) -> Iterator[LimitCheck]:
    usage = artifact.resources.get(entry)
    if usage is None:
        return
    spilled: dict[str, Json] = {"stores": usage.spill_stores, "loads": usage.spill_loads}
    spills = usage.spill_stores + usage.spill_loads
    most = (checks.max_registers, checks.max_spills, checks.max_local_memory) if checks else (None, None, None)
    yield LimitCheck("artifact/registers", "max_registers", "Registers", "registers", usage.registers, most[0])
    yield LimitCheck("artifact/spills", "max_spills", "Spills", "bytes of spills", spills, most[1], spilled)
    stack = usage.stack_bytes
    yield LimitCheck(
        "artifact/local-memory", "max_local_memory", "Local memory", "bytes of local memory", stack, most[2]
    )


def _patterns(search: Search, checks: ArtifactChecks) -> Iterator[PatternCheck]:
    for required, patterns in ((True, checks.required_patterns), (False, checks.forbidden_patterns)):
        for index, pattern in enumerate(patterns):
            hits = search.find(pattern)
            yield PatternCheck(pattern, required, index, hits, bool(hits) or search.can_tell(pattern))


def _defined(spec: KernelSpec) -> frozenset[str]:
    return frozenset(match[1] for option in spec.compile_options for match in _DEFINE.finditer(option))


def _plain(entry: str) -> str:
    """``_ZN2nn7softmaxIfEEvPT_`` -> ``softmax``."""
    return source_name(entry).rpartition("::")[2]
