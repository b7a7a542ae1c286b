"""Measure one compiled kernel against its ``artifact_checks``."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from gpuemu_lsp.engine.compile.model import Artifact
from gpuemu_lsp.engine.findings import Json, Place
from gpuemu_lsp.engine.lint.inspection import Inspection, LimitCheck, PatternCheck
from gpuemu_lsp.engine.lint.instruction_patterns import is_machine_opcode
from gpuemu_lsp.engine.lint.kernel_ptx import trace
from gpuemu_lsp.engine.lint.kernels import find_kernel, plain_name
from gpuemu_lsp.engine.lint.pattern_search import PatternSearch
from gpuemu_lsp.engine.lint.source_index import SourceIndex, whole_file
from gpuemu_lsp.engine.project.model import ArtifactChecks, KernelSpec
from gpuemu_lsp.engine.ptx import PtxError, parse
from gpuemu_lsp.engine.ptx.demangle import demangled_name
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.source.model import SourceFile

_DEFINE = re.compile(r"(?:-D|--define-macro[= ])\s*(\w+)")


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
    unchecked: list[str] = []
    limits = tuple(_limits(artifact, entry, checks))
    if checks is not None and not limits:
        unchecked.append("ptxas reported no resources for it, so its limits were not checked")
    module = _module(artifact, entry, unchecked)
    code = SourceIndex(source, spec.include_dirs, _defined(spec))
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
                trace(module, symbol), code, find_kernel(module, symbol, source) or plain_name(symbol)
            )
            for symbol in instances
        }
        patterns = tuple(_patterns(entry, instances, searches, checks))
    kernel = find_kernel(module, entry, source)
    place = Place(source.path, kernel.name_range) if kernel else code.kernel_place(plain_name(entry))
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
        unchecked.append(f"its PTX cannot be read, so its patterns were not checked ({error})")
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
    yield LimitCheck("artifact/registers", "max_registers", "Registers", "registers", usage.registers, most[0])
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
                hits=found[entry],
                elsewhere=tuple(name for symbol, name in instances.items() if symbol != entry and found[symbol]),
                known=frozenset(hit.place for symbol in before for hit in found[symbol]),
                first=not before,
                decided=bool(found[entry]) or not is_machine_opcode(pattern),
            )


def _defined(spec: KernelSpec) -> frozenset[str]:
    """Names that the compile options define."""
    return frozenset(match[1] for option in spec.compile_options for match in _DEFINE.finditer(option))
