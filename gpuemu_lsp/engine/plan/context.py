"""The inputs that all stages of resolving a kernel share."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING, TypeAlias

from gpuemu_lsp.engine.findings import Place
from gpuemu_lsp.engine.hostcode.cpp.translation_units import read_unit
from gpuemu_lsp.engine.hostcode.program import HostFunction, HostProgram
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.source import device_views
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile

if TYPE_CHECKING:
    from gpuemu_lsp.engine.emulator.analysis.kernel_facts import KernelFacts

TYPE_KINDS = frozenset({"typename", "class"})
"""Kinds of the template parameters that are types."""

FactsOf: TypeAlias = "Callable[[str], KernelFacts | None]"
"""Returns what the code of a kernel shows, by its mangled name; None for one that is not compiled."""


def declared_types(declaration: KernelDecl) -> str:
    """Return the types of a kernel's parameters, separated by commas."""
    const = {True: "const ", False: ""}
    return ",".join(f"{const[one.const]}{one.type}{'*' * one.pointer_depth}" for one in declaration.params)


def not_compiled(mangled: str) -> None:
    """Return None: nothing is compiled."""


@dataclass(frozen=True, slots=True)
class KernelContext:
    """One kernel, or one instance of a kernel template.

    ``bindings`` maps template parameters to arguments. ``compiled_types`` maps parameter types as written to those that
    the compiler resolved them to; both are empty until they are known. ``mangled`` is the name in the compiled code, of
    which ``facts_of`` returns the facts.
    """

    spec: KernelSpec
    declaration: KernelDecl
    source: SourceFile
    bindings: Mapping[str, str] = field(default_factory=dict)
    compiled_types: Mapping[str, str] = field(default_factory=dict)
    mangled: str = ""
    facts_of: FactsOf = not_compiled

    @property
    def code(self) -> KernelFacts | None:
        """What the compiled code shows, None as long as there is none."""
        return self.facts_of(self.mangled) if self.mangled else None

    def number_of(self, param: str) -> int:
        """Return the number of a parameter in the signature, -1 for a member of a struct."""
        return next((number for number, one in enumerate(self.declaration.params) if one.name == param), -1)

    @property
    def overloads(self) -> tuple[KernelDecl, ...]:
        """The kernels of this one's name, one of each list of parameter types; those under an ``#else`` too."""
        found: dict[tuple[str, ...], KernelDecl] = {}
        for declaration in self.source.kernels:
            if declaration.qualified_name == self.declaration.qualified_name:
                kinds = (parameter.kind for parameter in declaration.template)
                found.setdefault((declared_types(declaration), *kinds), declaration)
        return tuple(found.values())

    @property
    def program(self) -> HostProgram:
        """What the front end reads in the file and its headers."""
        return read_unit(device_views(self.source.path, self.source.text, self.spec.include_dirs))

    @property
    def definition(self) -> HostFunction | None:
        """The kernel as a function of its file; None for one that a macro defines."""
        lines = self.declaration.range
        named = self.program.kernels.get(self.declaration.name, ())
        return next((each for each in named if lines.start.line <= each.line <= lines.end.line), None)

    @property
    def registered(self) -> bool:
        """Whether gpuemu.toml has an entry for the kernel."""
        return "name" in self.spec.places

    @property
    def definitions(self) -> dict[str, str]:
        """C text by name: constants of the file and template arguments."""
        return {**self.source.constants, **self.bindings}

    @property
    def type_aliases(self) -> dict[str, str]:
        """Replacements for names in the types of the signature, by name."""
        return {**self.definitions, **self.compiled_types}

    @property
    def place(self) -> Place:
        """The kernel's name in the source."""
        return Place(self.source.path, self.declaration.name_range)

    @property
    def text(self) -> str:
        """The lines of the kernel's definition."""
        span = self.declaration.range
        return "\n".join(lines_of(self.source.text)[span.start.line : span.end.line + 1])

    def config_place(self, key: str) -> Place:
        """Return where a dotted key of the entry is written, or the table that lacks it."""
        while key and key not in self.spec.places:
            key = key.rpartition(".")[0]
        return self.spec.places[key]


@lru_cache(maxsize=4)
def lines_of(text: str) -> tuple[str, ...]:
    """Return the lines of a text; every kernel of a file asks for them."""
    return tuple(text.split("\n"))
