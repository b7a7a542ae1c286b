"""What a PTX file says of its kernels: ptxas' errors on their lines, resource usage, and the instruction mix."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from gpuemu_lsp.engine.compile.assembler import assemble, ptxas_path
from gpuemu_lsp.engine.compile.model import ResourceUsage
from gpuemu_lsp.engine.compile.ptxas import resources
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.errors import PtxError
from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.ptx.traversal import instructions_of, reachable

_SECONDS: Final = 300.0
_PTXAS_ERROR = re.compile(r"input, line (?P<line>\d+); (?:error|fatal)\s*:\s*(?P<text>.*)")


@dataclass(frozen=True, slots=True)
class PtxFile:
    """A PTX file.

    ``errors`` are ptxas' and those of our reader, each with its 1-based line, 0 without one. ``module`` is None if it
    cannot be read. ``mixes`` counts the instructions of each kernel and the functions that it calls, by opcode with its
    modifiers. ``resources`` is empty without a ptxas: ``assembled`` says whether there was one.
    """

    text: str
    errors: tuple[tuple[int, str], ...]
    module: Module | None = None
    mixes: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    resources: Mapping[str, ResourceUsage] = field(default_factory=dict)
    assembled: bool = False


def inspect_ptx(text: str, arch: str | None = None) -> PtxFile:
    """Return what is known of a PTX text; ``arch`` is the architecture to assemble for, by default its target.

    Raises
    ------
    AssemblerError
        If ptxas cannot be run.
    """
    errors: list[tuple[int, str]] = []
    module: Module | None = None
    try:
        module = parse(text)
    except PtxError as error:
        errors.append((error.line + 1, error.reason))
    mixes = (
        {} if module is None else {name: _mix(module, name) for name, one in module.functions.items() if one.is_entry}
    )
    path, target = ptxas_path(), arch or (module.target if module is not None else None)
    if path is None or target is None:
        return PtxFile(text, tuple(errors), module, mixes)
    done = assemble(path, text, target, (), _SECONDS)
    found = [(int(match["line"]), match["text"].strip()) for match in _PTXAS_ERROR.finditer(done.log)]
    if not done.succeeded and not found:
        found = [(0, line.strip()) for line in done.log.splitlines() if "fatal" in line or "error" in line][:1]
    usage = resources(done.log, text) if done.succeeded else {}
    # ptxas' own message on a line is better than ours.
    lines = {line for line, _ in found}
    own = [one for one in errors if one[0] not in lines]
    return PtxFile(text, (*dict.fromkeys(sorted((*found, *own))),), module, mixes, usage, assembled=True)


def _mix(module: Module, entry: str) -> Mapping[str, int]:
    """Return the instructions of a kernel by opcode, the most frequent first."""
    functions = reachable(module, entry)
    counts = Counter(instruction.name for function in functions for instruction in instructions_of(function))
    return dict(counts.most_common())
