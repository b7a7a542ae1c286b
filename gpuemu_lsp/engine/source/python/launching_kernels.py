"""Kernels of languages whose programs launch them: functions with a decorator of CuTe DSL or Warp.

Which types and sizes such a kernel is compiled for, the program says when it runs.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from tree_sitter import Node

from gpuemu_lsp.engine.source.python.model import LaunchingKernel
from gpuemu_lsp.engine.source.python.syntax import descendants, range_of, text_of


@dataclass(frozen=True, slots=True)
class LaunchingSyntax:
    """How kernels of a language are recognised: the package that a module imports, and the name of the decorator."""

    language: str
    imported: str
    decorator: str

    def occurs(self, text: str) -> bool:
        """Return whether a text imports the package and has a decorator of that name. Fast: nothing is parsed."""
        if self.imported not in text or self.decorator not in text:
            return False
        imports = re.search(rf"^[ \t]*(?:import|from)[ \t]+{self.imported}\b", text, re.MULTILINE)
        return imports is not None and self._pattern.search(text) is not None

    def decorates(self, decorator: str) -> bool:
        """Return whether the text of a decorator is the language's."""
        return self._pattern.match(decorator) is not None

    @property
    def _pattern(self) -> re.Pattern[str]:
        return re.compile(rf"@\s*(?:\w+\s*\.\s*)*{self.decorator}\b(?!\s*\.)")


LAUNCHING: Final = (
    LaunchingSyntax("cute", "cutlass", "kernel"),
    LaunchingSyntax("warp", "warp", "kernel"),
    LaunchingSyntax("tilelang", "tilelang", "prim_func"),
)
"""The languages, by the name that each has in gpuemu.toml."""


def may_have_launching(text: str) -> bool:
    """Return whether a module may have kernels of these languages. Fast: nothing is parsed."""
    return any(syntax.occurs(text) for syntax in LAUNCHING)


def launching_kernels(root: Node, text: str) -> Iterator[LaunchingKernel]:
    """Yield the decorated functions of a module, at its top level or inside of functions and classes."""
    occurring = [syntax for syntax in LAUNCHING if syntax.occurs(text)]
    for decorated in descendants(root, "decorated_definition") if occurring else ():
        function = decorated.child_by_field_name("definition")
        name = function.child_by_field_name("name") if function is not None else None
        if function is None or function.type != "function_definition" or name is None:
            continue
        decorators = [text_of(child) for child in decorated.children if child.type == "decorator"]
        for syntax in occurring:
            if any(map(syntax.decorates, decorators)):
                path = ".".join([*_around(decorated), text_of(name)])
                yield LaunchingKernel(syntax.language, path, range_of(name), range_of(decorated))
                break


def _around(node: Node) -> list[str]:
    """Return the names of the functions and classes around a node, the outermost first."""
    names, current = [], node.parent
    while current is not None:
        if current.type in ("class_definition", "function_definition"):
            names.append(text_of(current.child_by_field_name("name")))
        current = current.parent
    return names[::-1]
