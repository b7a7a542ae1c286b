"""Syntax of host code, and the functions, structs and constants of a program's files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import tree_sitter_cuda
from tree_sitter import Language, Node, Parser

from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable

_CHANGE = re.compile(
    rb"\b(\w+)\s*(?:\.\s*\w+\s*|\[[^\]]*\]\s*)?(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:&|\+\+|--)\s*(\w+)"
)
_DEVICE = re.compile(r"__(?:device|constant|shared|managed)__")
_FUNCTIONS = re.compile(r"[{,]\s*(?:\([^()]*\)\s*)?&?\s*[A-Za-z_][\w:]*\s*(?:<[^{}]*>\s*)?(?:\(\s*\)\s*)?[,}]")
"""A name, an instance of a template, or a call without arguments in a list."""
_FUNCTION_TYPES = frozenset({"function_definition"})
_INNER = frozenset({
    "translation_unit", "namespace_definition", "declaration_list", "linkage_specification", "template_declaration",
    "struct_specifier", "class_specifier", "field_declaration_list", "declaration", "ERROR",
})  # fmt: skip


@dataclass(frozen=True, slots=True)
class ParsedFunction:
    """A function with a body. ``template`` are names of its template parameters, with their defaults."""

    name: str
    node: Node
    path: str
    parameters: tuple[Node, ...]
    template: tuple[tuple[str, Node | None], ...] = ()
    owner: str | None = None
    unit: ParsedProgram | None = field(default=None, compare=False, repr=False)
    """The program whose macros, constants and types its body uses."""

    @property
    def value_parameters(self) -> frozenset[str]:
        """The template parameters that stand for numbers."""
        parent = self.node.parent
        listed = parent.child_by_field_name("parameters") if parent is not None else None
        values = ("parameter_declaration", "optional_parameter_declaration")
        nodes = [one for one in listed.named_children if one.type in values] if listed is not None else []
        return frozenset(declared_name(one.child_by_field_name("declarator")) for one in nodes)

    @property
    def may_be_member(self) -> bool:
        """Whether it is defined in a class, or by a qualified name: that of a class, or of a namespace."""
        declarator = _function_declarator(self.node)
        named = declarator.child_by_field_name("declarator") if declarator is not None else None
        return self.owner is not None or "::" in text(named)

    @property
    def body(self) -> Node | None:
        """The statements."""
        return self.node.child_by_field_name("body")


@dataclass(frozen=True, slots=True)
class HostFile:
    """One file: its path and its code without comments, directives and inactive regions, as bytes in Latin-1."""

    path: str
    code: str


@dataclass(slots=True)
class ParsedProgram:
    """Functions by name, structs by name, and initialisers of variables at namespace scope."""

    macros: MacroTable
    functions: dict[str, list[ParsedFunction]] = field(default_factory=dict)
    structs: dict[str, Node] = field(default_factory=dict)
    variables: dict[str, Node] = field(default_factory=dict)
    templates: dict[str, tuple[tuple[str, Node | None], ...]] = field(default_factory=dict)
    """Template parameters of structs."""
    aliases: dict[str, str] = field(default_factory=dict)
    constants: Mapping[str, str] = field(default_factory=dict)
    kernels: frozenset[str] = frozenset()
    prototypes: set[str] = field(default_factory=set)
    """Names of functions that are declared, without a body."""
    methods: set[str] = field(default_factory=set)
    """Names of member functions that a class declares, without a body."""
    assigned: frozenset[bytes] | None = None
    """Names that its functions assign, or of which they take the address."""
    linked: tuple[ParsedProgram, ...] = ()
    """Other translation units of the same program: they call functions of this one, or define what it calls."""

    def assigns(self, name: str) -> bool:
        """Return whether a function of this unit may change a variable of a name."""
        if self.assigned is None:
            texts = [one.node.text or b"" for listed in self.functions.values() for one in listed]
            self.assigned = frozenset(word for text in texts for found in _CHANGE.findall(text) for word in found)
        return name.encode() in self.assigned

    def find(self, name: str, *, method: bool = False) -> list[ParsedFunction]:
        """Return the functions of a name: this unit's, or those that other units of the program define.

        With ``method`` also the member functions that other units define.
        """
        found = self.functions.get(name)
        if found:
            return found
        there = [one for unit in self.linked for one in unit.functions.get(name, ())]
        if name in self.prototypes:
            return there
        return [one for one in there if one.may_be_member] if method and name in self.methods else []

    def variable(self, name: str) -> tuple[ParsedProgram, Node] | None:
        """Return the declaration of a variable at namespace scope, with its unit; a definition if there is one."""
        units = [(unit, unit.variables[name]) for unit in (self, *self.linked) if name in unit.variables]
        defined = [
            one
            for one in units
            if not (one[1].text or b"").startswith(b"extern")
            or any(each.type == "init_declarator" for each in one[1].children_by_field_name("declarator"))
        ]
        return next(iter(defined or units), None) if name in self.variables else None


def link(units: Sequence[ParsedProgram]) -> None:
    """Make translation units know each other's functions and variables."""
    for unit in units:
        unit.linked = tuple(one for one in units if one is not unit)


def program_of(files: Sequence[HostFile], macros: MacroTable, constants: Mapping[str, str]) -> ParsedProgram:
    """Read the declarations of some files; the first file's take precedence."""
    program = ParsedProgram(macros, constants=constants)
    kernels: set[str] = set()
    for file in files:
        for node, template, owner in _declarations(tree_of(file.code), ()):
            _declare(program, kernels, file.path, node, template, owner)
    program.kernels = frozenset(kernels)
    return program


def _declare(
    program: ParsedProgram,
    kernels: set[str],
    path: str,
    node: Node,
    template: tuple[tuple[str, Node | None], ...],
    owner: str | None,
) -> None:
    if node.type == "function_definition":
        declarator = _function_declarator(node)
        if declarator is None:
            return
        name = text(declarator.child_by_field_name("declarator")).split("::")[-1].split("<")[0].strip()
        head = (
            node.text[: (node.child_by_field_name("body") or node).start_byte - node.start_byte] if node.text else b""
        )
        if b"__global__" in head:
            kernels.add(name)
            return
        if b"__device__" in head and b"__host__" not in head:
            return
        listed = declarator.child_by_field_name("parameters")
        parameters = tuple(
            one
            for one in (listed.named_children if listed is not None else ())
            if one.type in ("parameter_declaration", "optional_parameter_declaration") and text(one) != "void"
        )
        program.functions.setdefault(name, []).append(
            ParsedFunction(name, node, path, parameters, template, owner, program)
        )
    elif node.type in ("struct_specifier", "class_specifier"):
        name_node = node.child_by_field_name("name")
        if name_node is not None and node.child_by_field_name("body") is not None:
            program.structs.setdefault(text(name_node), node)
            program.templates.setdefault(text(name_node), template)
    elif node.type in ("declaration", "field_declaration"):
        for one in node.children_by_field_name("declarator"):
            name = declared_name(one)
            if _declares_function(one):
                (program.prototypes if owner is None else program.methods).add(name)
            kinds = ("init_declarator", "array_declarator", "pointer_declarator", "identifier")
            if name and owner is None and one.type in kinds and not _DEVICE.search(text(node)):
                program.variables.setdefault(name, node)
    elif node.type == "alias_declaration":
        alias, type_ = node.child_by_field_name("name"), node.child_by_field_name("type")
        if alias is not None and type_ is not None:
            program.aliases.setdefault(text(alias), text(type_))
    elif node.type == "type_definition":
        type_ = node.child_by_field_name("type")
        for one in node.children_by_field_name("declarator"):
            if type_ is not None and one.type == "type_identifier":
                if type_.type in ("struct_specifier", "class_specifier") and type_.child_by_field_name("body"):
                    program.structs.setdefault(text(one), type_)
                else:
                    program.aliases.setdefault(text(one), text(type_))


def _declarations(
    node: Node, template: tuple[tuple[str, Node | None], ...], owner: str | None = None
) -> Iterator[tuple[Node, tuple[tuple[str, Node | None], ...], str | None]]:
    """Yield declarations with the parameters of their templates and the class they are in."""
    pending: list[tuple[Node, tuple[tuple[str, Node | None], ...], str | None]] = [(node, template, owner)]
    while pending:
        here, parameters, inside = pending.pop(0)
        if here.type == "template_declaration":
            parameters = template_parameters(here)
        if here.type in ("struct_specifier", "class_specifier"):
            yield here, parameters, inside
            name = here.child_by_field_name("name")
            inside = text(name) if name is not None else inside
        if here.type in _FUNCTION_TYPES:
            yield here, parameters, inside
            continue
        if here.type in ("declaration", "field_declaration", "alias_declaration", "type_definition"):
            yield here, parameters, inside
        if here.type in _INNER or here.type == "type_definition":
            pending += [(child, parameters, inside) for child in here.named_children]


def template_parameters(node: Node) -> tuple[tuple[str, Node | None], ...]:
    """Return the names and defaults of a template's parameters."""
    listed = node.child_by_field_name("parameters")
    found: list[tuple[str, Node | None]] = []
    for one in listed.named_children if listed is not None else ():
        default = one.child_by_field_name("default_type") or one.child_by_field_name("default_value")
        if one.type == "template_template_parameter_declaration":
            one = one.named_children[-1]
        name = one.child_by_field_name("name")
        if name is None:
            declarator = one.child_by_field_name("declarator")
            name = declarator or next((child for child in one.named_children if child.type == "type_identifier"), None)
        found.append((text(name).split("=")[0].strip() if name is not None else "", default))
    return tuple(found)


def _declares_function(node: Node) -> bool:
    while node.type in ("pointer_declarator", "reference_declarator"):
        inner = node.child_by_field_name("declarator") or next(iter(node.named_children), None)
        if inner is None:
            return False
        node = inner
    return node.type == "function_declarator"


def _function_declarator(node: Node) -> Node | None:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        declarator = declarator.child_by_field_name("declarator") or next(
            (child for child in declarator.named_children if "declarator" in child.type), None
        )
    return declarator


def is_table(node: Node) -> bool:
    """Return whether a declaration has a list of constants or of functions, which a program does not change."""
    written = text(node)
    listed = [one.child_by_field_name("value") for one in node.children_by_field_name("declarator")]
    kinds = ("initializer_list", "compound_literal_expression")
    if not any(one is not None and one.type in kinds for one in listed):
        return False
    return is_constant(node) or bool(_FUNCTIONS.search(written))


def is_constant(node: Node) -> bool:
    """Return whether a declaration is one of constants."""
    return re.match(r"(?:\w+\s+)*(?:const|constexpr)\b", text(node)) is not None


def declared_name(node: Node | None) -> str:
    """Return the name in a declarator."""
    while node is not None and node.type not in ("identifier", "field_identifier", "type_identifier"):
        if node.type in ("qualified_identifier", "template_function"):
            return text(node)
        inner = node.child_by_field_name("declarator")
        if inner is None:
            inner = next(
                (child for child in node.named_children if "declarator" in child.type or "identifier" in child.type),
                None,
            )
        node = inner
    return text(node) if node is not None else ""


def text(node: Node | None) -> str:
    """Return the code of a node, on one line."""
    return "" if node is None or node.text is None else " ".join(node.text.decode("latin-1").split())


@lru_cache(maxsize=1)
def _parser() -> Parser:
    return Parser(Language(tree_sitter_cuda.language()))


@lru_cache(maxsize=64)
def tree_of(code: str) -> Node:
    """Return the root of the syntax tree of some code in Latin-1."""
    return _parser().parse(code.encode("latin-1", "replace")).root_node


@lru_cache(maxsize=4096)
def statements_of(code: str) -> tuple[Node, ...]:
    """Return the statements that a macro expands to."""
    root = tree_of("void f() {" + code + ";}")
    body = root.named_children[0].child_by_field_name("body") if root.named_children else None
    return tuple(body.named_children) if body is not None else ()


@lru_cache(maxsize=4096)
def expression_of(code: str) -> Node | None:
    """Return the syntax tree of an expression, None if some code is not one."""
    found = statements_of(f"_ = {code}")
    if len(found) != 1 or found[0].type != "expression_statement" or found[0].has_error:
        return None
    assignment = found[0].named_children[0]
    return assignment.child_by_field_name("right") if assignment.type == "assignment_expression" else None


def returns_once(body: Node) -> bool:
    """Return whether a function returns at its end only, so that what it asserts holds after every call of it."""
    last = body.named_children[-1] if body.named_children else None
    return (body.text or b"").count(b"return") == int(last is not None and last.type == "return_statement")
