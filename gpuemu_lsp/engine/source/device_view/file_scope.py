"""Names of file scope that device code uses."""

from __future__ import annotations

import re
from collections.abc import Iterable

from gpuemu_lsp.engine.source.device_view.reachability import ReachableCode
from gpuemu_lsp.engine.source.preprocessor.lexer import closing
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable
from gpuemu_lsp.engine.source.syntax.declarations import Declaration
from gpuemu_lsp.engine.source.syntax.parsed_source import ParsedSource

_PARAMETER = re.compile(r"([A-Za-z_]\w*)\s*(?=[,)=\[])")
"""The name of a parameter, which is the last word of its declarator."""


def file_scope_names(files: Iterable[ParsedSource], reachable: ReachableCode, macros: MacroTable) -> frozenset[str]:
    """Return the names that device code of some files may use of those declared outside of functions.

    A parameter of a function hides such a name in it, and a declaration does not use the name that it declares.
    """
    used: set[str] = set()
    for file in files:
        dropped = {start for start, _ in reachable.dropped[file.path]}
        for declaration in file.declarations:
            if declaration.item.start not in dropped:
                used |= declaration.uses - _declared(file, declaration)
    return macros.expand(used)


def _declared(file: ParsedSource, declaration: Declaration) -> frozenset[str]:
    start = declaration.parameters
    if start is None:
        return declaration.names
    code = file.text.code
    return frozenset(_PARAMETER.findall(code[start : closing(code, start)]))
