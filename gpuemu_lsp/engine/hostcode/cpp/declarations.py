"""The functions, classes, variables and types that C++ files declare.

What a function does is lowered when the interpreter reaches it, and remembered by its text and the macros in it: of a
file that is edited, what has changed is lowered again.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from tree_sitter import Node

from gpuemu_lsp.engine.hostcode import ir
from gpuemu_lsp.engine.hostcode.cpp.lower import Lowering
from gpuemu_lsp.engine.hostcode.cpp.syntax import declared_name, expression_of, text, tree_of
from gpuemu_lsp.engine.hostcode.program import (
    FunctionBody,
    HostFunction,
    HostProgram,
    HostStruct,
    HostVariable,
    Instantiation,
    TemplateParameter,
)
from gpuemu_lsp.engine.hostcode.type_names import base_name, split_template
from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.preprocessor.lexer import WORD
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable

_LAUNCHES = (b"<<<", b"cudaLaunch", b"cuLaunch", b"cudaGraphAdd", b"ModuleGetFunction", b"LibraryGetKernel")
"""Parts of launches, and of functions that return the kernel of a name."""
_CHANGE = re.compile(
    rb"\b(\w+)\s*(?:\.\s*\w+\s*|\[[^\]]*\]\s*)?(?:(?:[-+*/%&|^]|<<|>>)?=(?!=)|\+\+|--)|(?:&|\+\+|--)\s*(\w+)"
)
_DEVICE = re.compile(r"__(?:device|constant|shared|managed)__")
_CONSTANT = re.compile(r"(?:\w+\s+)*(?:const|constexpr)\b")
_FUNCTIONS = re.compile(r"[{,]\s*(?:\([^()]*\)\s*)?&?\s*[A-Za-z_][\w:]*\s*(?:<[^{}]*>\s*)?(?:\(\s*\)\s*)?[,}]")
"""A name, an instance of a template, or a call without arguments in a list."""
_INNER = frozenset({
    "translation_unit", "namespace_definition", "declaration_list", "linkage_specification", "template_declaration",
    "struct_specifier", "class_specifier", "field_declaration_list", "declaration", "ERROR", "type_definition",
})  # fmt: skip
_CLASSES = ("struct_specifier", "class_specifier")
_YIELDED = frozenset({
    *_CLASSES, "declaration", "field_declaration", "alias_declaration", "type_definition", "template_instantiation",
})  # fmt: skip
_LISTS = ("initializer_list", "compound_literal_expression")
_PARAMETERS = ("parameter_declaration", "optional_parameter_declaration")
_VARIABLES = ("init_declarator", "array_declarator", "pointer_declarator", "identifier")
_known_bodies: Memo[FunctionBody] = Memo(4000)


@dataclass(frozen=True, slots=True)
class HostFile:
    """One file: its path and its code without comments, directives and inactive regions, as bytes in Latin-1."""

    path: str
    code: str


def program_of(files: Sequence[HostFile], macros: MacroTable, constants: Mapping[str, str]) -> HostProgram:
    """Read the declarations of some files; the first file's take precedence."""
    reader = _Reader(macros, constants)
    for file in files:
        reader.read(file)
    return reader.program


@dataclass(frozen=True, slots=True)
class _Context:
    """Where a declaration stands: the parameters of its template, and the class that it is in."""

    template: tuple[TemplateParameter, ...] = ()
    owner: str | None = None


class _Reader:
    def __init__(self, macros: MacroTable, constants: Mapping[str, str]) -> None:
        self._macros = macros
        self._expressions: dict[str, ir.Expression | None] = {}
        self.program = HostProgram(constants, self._expression, _changes)
        self.program.launching_macros = frozenset(
            name
            for name, definitions in macros.definitions.items()
            if any("<<<" in macro.body or "cudaLaunch" in macro.body for macro in definitions)
        )

    def read(self, file: HostFile) -> None:
        for node, context in _declarations(tree_of(file.code)):
            self._declare(file.path, node, context)

    def _lowering(self, node: Node) -> Lowering:
        return Lowering(self._macros, self.program.functions.__contains__, node.start_point[0])

    def _expression(self, code: str) -> ir.Expression | None:
        if code not in self._expressions:
            node = expression_of(code)
            lowering = Lowering(self._macros, self.program.functions.__contains__, span=ir.Span())
            self._expressions[code] = lowering.expression(node) if node is not None else None
        return self._expressions[code]

    def _declare(self, path: str, node: Node, context: _Context) -> None:
        program = self.program
        if node.type == "function_definition":
            self._function(path, node, context)
        elif node.type in _CLASSES:
            name = text(node.child_by_field_name("name"))
            if name and node.child_by_field_name("body") is not None:
                program.structs.setdefault(name, self._struct(name, node, context))
        elif node.type in ("declaration", "field_declaration"):
            for declarator in node.children_by_field_name("declarator"):
                name = declared_name(declarator)
                if _declares_function(declarator):
                    (program.prototypes if context.owner is None else program.methods).add(name)
                if name and context.owner is None and declarator.type in _VARIABLES and not _DEVICE.search(text(node)):
                    program.variables.setdefault(name, self._variable(node))
        elif node.type == "template_instantiation":
            function = _function_declarator(node)
            if function is not None:
                name = text(function.child_by_field_name("declarator"))
                parameters = self._lowering(node).parameters(function.child_by_field_name("parameters"))
                instance = Instantiation(tuple(split_template(name)), parameters)
                program.instances.setdefault(base_name(name), []).append(instance)
        elif node.type == "alias_declaration":
            program.aliases.setdefault(text(node.child_by_field_name("name")), text(node.child_by_field_name("type")))
        else:
            self._typedef(node, context)

    def _typedef(self, node: Node, context: _Context) -> None:
        type_ = node.child_by_field_name("type")
        for declarator in node.children_by_field_name("declarator"):
            if type_ is None or declarator.type != "type_identifier":
                continue
            name = text(declarator)
            if type_.type in _CLASSES and type_.child_by_field_name("body") is not None:
                self.program.structs.setdefault(name, self._struct(name, type_, context))
            else:
                self.program.aliases.setdefault(name, text(type_))

    def _function(self, path: str, node: Node, context: _Context) -> None:
        declarator = _function_declarator(node)
        if declarator is None:
            return
        code, named = node.text or b"", declarator.child_by_field_name("declarator")
        name = text(named).split("::")[-1].split("<")[0].strip()
        body = node.child_by_field_name("body")
        head = code[: (body or node).start_byte - node.start_byte]
        function = HostFunction(
            name,
            path,
            node.start_point[0],
            code,
            partial(self._body, node, declarator.child_by_field_name("parameters")),
            self.program,
            context.template,
            context.owner,
            context.owner is not None or "::" in text(named),
            any(part in code for part in _LAUNCHES),
        )
        program = self.program
        on_device = b"__device__" in head and b"__host__" not in head
        others = program.device_functions if on_device else program.functions
        (program.kernels if b"__global__" in head else others).setdefault(name, []).append(function)

    def _body(self, node: Node, parameters: Node | None) -> FunctionBody:
        code = (node.text or b"").decode("latin-1")
        words = frozenset(WORD.findall(code)).intersection(self._macros.definitions)
        key = code, node.start_point[1], self._macros.affecting(words), words.intersection(self.program.functions)
        return _known_bodies.get(key, lambda: self._lowering(node).function(node, parameters))

    def _variable(self, node: Node) -> HostVariable:
        declarators = node.children_by_field_name("declarator")
        code = text(node)
        values = [one.child_by_field_name("value") for one in declarators]
        listed = any(
            one is not None and one.type in ("initializer_list", "compound_literal_expression") for one in values
        )
        constant = _CONSTANT.match(code) is not None
        return HostVariable(
            node.text or b"",
            lambda: self._lowering(node).statements([node]),
            constant,
            listed and (constant or _FUNCTIONS.search(code) is not None),
            not code.startswith("extern") or any(one.type == "init_declarator" for one in declarators),
        )

    def _struct(self, name: str, node: Node, context: _Context) -> HostStruct:
        body = node.child_by_field_name("body")
        inside = body.named_children if body is not None else []
        aliases = {
            text(one.child_by_field_name("name")): text(one.child_by_field_name("type"))
            for one in inside
            if one.type == "alias_declaration"
        }
        kinds = ("comment", "access_specifier", "function_definition", "field_declaration")
        plain = all(one.type in kinds for one in inside)
        return HostStruct(name, lambda: self._lowering(node).members(body), aliases, context.template, plain)


def _changes(function: HostFunction) -> Iterator[str]:
    """Yield names that a function assigns, or of which it takes the address."""
    yield from (word.decode() for pair in _CHANGE.findall(function.code) for word in pair if word)


def _declarations(node: Node) -> Iterator[tuple[Node, _Context]]:
    """Yield declarations with the parameters of their templates and the class they are in."""
    pending: list[tuple[Node, _Context]] = [(node, _Context())]
    for here, context in pending:
        if here.type == "template_declaration":
            context = _Context(_template_parameters(here), context.owner)
        if here.type == "function_definition" or here.type in _YIELDED:
            yield here, context
        if here.type in _CLASSES:
            name = here.child_by_field_name("name")
            context = _Context(context.template, text(name) if name is not None else context.owner)
        if here.type in _INNER:
            pending += [(child, context) for child in here.named_children]


def _template_parameters(node: Node) -> tuple[TemplateParameter, ...]:
    """Return the parameters of a template."""
    listed = node.child_by_field_name("parameters")
    parameters = []
    for child in listed.named_children if listed is not None else ():
        default = child.child_by_field_name("default_type") or child.child_by_field_name("default_value")
        inner = child.named_children[-1] if child.type == "template_template_parameter_declaration" else child
        name = inner.child_by_field_name("name") or inner.child_by_field_name("declarator")
        name = name or next((each for each in inner.named_children if each.type == "type_identifier"), None)
        number = child.type in _PARAMETERS
        parameters.append(TemplateParameter(text(name).split("=")[0].strip(), number, text(default)))
    return tuple(parameters)


def _declares_function(node: Node) -> bool:
    inner: Node | None = node
    while inner is not None and inner.type in ("pointer_declarator", "reference_declarator"):
        inner = inner.child_by_field_name("declarator") or next(iter(inner.named_children), None)
    return inner is not None and inner.type == "function_declarator"


def _function_declarator(node: Node) -> Node | None:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        inner = declarator.child_by_field_name("declarator")
        declarator = inner or next((one for one in declarator.named_children if "declarator" in one.type), None)
    return declarator
