"""Measurement of a compiled kernel against its ``artifact_checks``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.findings import Json, Place
from gpuemu_lsp.engine.lint.inspection import Inspection, LimitCheck, PatternCheck
from gpuemu_lsp.engine.lint.instruction_patterns import is_machine_opcode
from gpuemu_lsp.engine.lint.kernel_ptx import collect_kernel_ptx
from gpuemu_lsp.engine.lint.pattern_search import PatternSearch
from gpuemu_lsp.engine.lint.source_index import SourceIndex, whole_file
from gpuemu_lsp.engine.project.model import ArtifactChecks, KernelSpec
from gpuemu_lsp.engine.ptx import PtxError, parse
from gpuemu_lsp.engine.ptx.demangle import demangled_name
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.ptx.traversal import instructions_of
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile

_DEFINE = re.compile(r"(?:-D|--define-macro[= ])\s*(\w+)")


def inspect(artifact: Artifact, entry: str, spec: KernelSpec, source: SourceFile) -> Inspection:
    """Measure a kernel.

    Parameters
    ----------
    artifact
        The compiled file.
    entry
        Mangled name of the kernel.
    spec
        Configuration of the kernel.
    source
        The .cu file of the kernel.
    """
    checks = spec.artifact_checks
    unchecked: list[str] = []
    limits = tuple(_limits(artifact, entry, checks))
    if checks is not None and not limits:
        unchecked.append("ptxas reported no resource usage, so limits were not checked")
    module = _module(artifact, entry, unchecked)
    source_index = SourceIndex(source, spec.include_dirs, _defined(spec))
    patterns: tuple[PatternCheck, ...] = ()
    if module is not None and checks is not None:
        instances = {
            symbol: name
            for name, symbol in artifact.entries.items()
            if symbol in module.functions and demangled_name(symbol) == demangled_name(entry)
        }
        instances.setdefault(entry, spec.name)
        searches = {
            symbol: PatternSearch(
                collect_kernel_ptx(module, symbol),
                source_index,
                find_kernel(module, symbol, source) or plain_name(symbol),
            )
            for symbol in instances
        }
        patterns = tuple(_patterns(entry, instances, searches, checks))
    kernel = find_kernel(module, entry, source)
    place = Place(source.path, kernel.name_range) if kernel else source_index.kernel_place(plain_name(entry))
    return Inspection(
        kernel=spec.name,
        name=next((name for name, symbol in artifact.entries.items() if symbol == entry), spec.name),
        place=place or spec.places.get("name") or whole_file(source.path),
        limits=limits,
        patterns=patterns,
        configured=checks is not None,
        unchecked=tuple(unchecked) if checks is not None else (),
    )


def _module(artifact: Artifact, entry: str, unchecked: list[str]) -> Module | None:
    try:
        module = parse(artifact.ptx)
    except PtxError as error:
        unchecked.append(f"its PTX could not be parsed, so patterns were not checked ({error})")
        return None
    if entry not in module.functions:
        unchecked.append(f"the artifact has no kernel '{entry}'")
        return None
    return module


def _limits(artifact: Artifact, entry: str, checks: ArtifactChecks | None) -> Iterator[LimitCheck]:
    usage = artifact.resources.get(entry)
    if usage is None:
        return
    spilled: dict[str, Json] = {"stores": usage.spill_stores, "loads": usage.spill_loads}
    spills = usage.spill_stores + usage.spill_loads
    most = (checks.max_registers, checks.max_spills, checks.max_local_memory) if checks else (None, None, None)
    yield LimitCheck(
        "artifact/registers", "max_registers", "Registers", "registers per thread", usage.registers, most[0]
    )
    yield LimitCheck("artifact/spills", "max_spills", "Spills", "bytes of spills", spills, most[1], spilled)
    stack = usage.stack_bytes
    yield LimitCheck(
        "artifact/local-memory", "max_local_memory", "Local memory", "bytes of local memory", stack, most[2]
    )


def _patterns(
    entry: str, instances: Mapping[str, str], searches: Mapping[str, PatternSearch], checks: ArtifactChecks
) -> Iterator[PatternCheck]:
    before = list(instances)[: list(instances).index(entry)]
    for required, patterns in ((True, checks.required_patterns), (False, checks.forbidden_patterns)):
        for index, pattern in enumerate(patterns):
            found = {symbol: search.find(pattern, certain=not required) for symbol, search in searches.items()}
            yield PatternCheck(
                pattern=pattern,
                required=required,
                index=index,
                matches=found[entry],
                elsewhere=tuple(name for symbol, name in instances.items() if symbol != entry and found[symbol]),
                known=frozenset(match.place for symbol in before for match in found[symbol]),
                first=not before,
                decided=bool(found[entry]) or not is_machine_opcode(pattern),
            )


def _defined(spec: KernelSpec) -> frozenset[str]:
    """Return the macros that the compile options define."""
    return frozenset(match[1] for option in spec.compile_options for match in _DEFINE.finditer(option))


def plain_name(entry: str) -> str:
    """Return ``softmax`` for ``_ZN2nn7softmaxIfEEvPT_``."""
    return demangled_name(entry).rpartition("::")[2]


def find_kernel(module: Module | None, entry: str, source: SourceFile) -> KernelDecl | None:
    """Return the declaration of a kernel; among overloads, the one on whose lines its instructions are."""
    named = [kernel for kernel in source.kernels if demangled_name(entry) in (kernel.name, kernel.qualified_name)]
    named = named or [kernel for kernel in source.kernels if kernel.name == plain_name(entry)]
    lines = _own_lines(module, entry, source.path) if module is not None and len(named) > 1 else set()
    for kernel in named:
        if any(kernel.range.start.line <= line <= kernel.range.end.line for line in lines):
            return kernel
    return named[0] if named else None


def _own_lines(module: Module, entry: str, path: str) -> set[int]:
    """Return the 0-based lines of a file from which a kernel's instructions come, calls inlined."""
    found = set()
    for instruction in instructions_of(module.functions[entry]):
        location = instruction.location
        while location is not None and location.inlined_at is not None:
            location = location.inlined_at
        if location is not None and module.files.get(location.file) == path:
            found.add(location.line - 1)
    return found
