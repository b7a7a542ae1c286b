"""A PTX text whose ``.loc`` directives name its own lines (PTX ISA section 11.5.2)."""

from __future__ import annotations

import re

from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.ptx.traversal import instructions_of

_DIRECTIVE = re.compile(r"\s*\.(?:loc|file)\s")


def with_own_lines(module: Module, path: str) -> str:
    """Return the text of a module with a ``.loc`` of the file ``path`` before each line that has an instruction.

    Those of the source that it was compiled from are left out.
    """
    starts = {
        instruction.text_line: None
        for function in module.functions.values()
        for instruction in instructions_of(function)
    }
    lines = []
    for number, line in enumerate(module.text.rstrip("\0").split("\n")):
        if _DIRECTIVE.match(line):
            continue
        if number in starts:
            column = len(line) - len(line.lstrip()) + 1
            lines.append(f"\t.loc\t1 {number + 1} {column}")
        lines.append(line)
    escaped = path.replace("\\", "\\\\").replace('"', '\\"')
    return "\n".join([*lines, f'\t.file\t1 "{escaped}"', ""])
