"""Which parameter an address comes from: a guess at the buffer it lies in, worth a look before its shadow."""

from __future__ import annotations

from collections.abc import Mapping

from gpuemu_lsp.engine.emulator.analysis.race_candidates import UNKNOWN, origins
from gpuemu_lsp.engine.emulator.ir.program import Program


def pointers(program: Program) -> Mapping[str, int]:
    """Return, for each register whose value comes from one parameter only, the parameter's number."""
    number = {f"{name}+0": index for index, name in enumerate(program.params)}
    found = ((name, roots - {UNKNOWN}) for name, roots in origins(program).items())
    return {name: number[root] for name, roots in found if len(roots) == 1 for root in roots if root in number}
