"""PTX parser: one pass over the statements of a text to a :class:`Module`."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import lru_cache

from gpuemu_lsp.engine.ptx.errors import PtxError, UnlocatedSyntaxError, shown
from gpuemu_lsp.engine.ptx.function_builder import FunctionBuilder
from gpuemu_lsp.engine.ptx.locations import LocationReader
from gpuemu_lsp.engine.ptx.model import Function, Module, Variable
from gpuemu_lsp.engine.ptx.operands import split
from gpuemu_lsp.engine.ptx.statements import statements
from gpuemu_lsp.engine.ptx.variables import variable

_HEAD = re.compile(
    r"(?:\.\w+\s+)*?\.(?P<kind>entry|func)\b\s*(?:\.attribute\s*\([^()]*(?:\([^()]*\)[^()]*)*\)\s*)?"
    r"(?:\((?P<returns>[^()]*)\)\s*)?(?P<name>[\w$%]+)\s*(?:\((?P<params>[^()]*)\)\s*)?(?P<directives>(?:\.[^()]*)?)",
    re.ASCII,
)
_DIRECTIVE = re.compile(r"\.(\w+)((?:\s*\d+\s*,?)*)", re.ASCII)
_NUMBER = re.compile(r"\d{1,9}", re.ASCII)
_TABLE = re.compile(r"\s*\.(?:branchtargets|callprototype|calltargets)\b", re.ASCII)
_ALIAS = re.compile(r"\.alias\s+([\w$%]+)\s*,\s*([\w$%]+)\s*", re.ASCII)
_GROUPS = re.compile(r"\(([^()]*)\)")


@lru_cache(maxsize=8)  # lint, plan and emulator parse the same text in turn
def parse(text: str) -> Module:
    """Parse a PTX text. Callers share the module and must not modify it.

    Parameters
    ----------
    text
        PTX as written by NVRTC, nvcc, clang or Triton.

    Returns
    -------
    Module
        The variables and functions.

    Raises
    ------
    PtxError
        If it cannot be parsed; the error has the line and what was expected.
    """
    module_parser = _ModuleParser(text)
    line = 0
    try:
        for kind, match, line in statements(text):
            module_parser.add(kind, match, line)
        return module_parser.finish()
    except UnlocatedSyntaxError as problem:
        raise PtxError(str(problem), line) from None


@dataclass(slots=True)
class _FunctionHead:
    """Head of a function, before its braces."""

    name: str
    is_entry: bool
    params: tuple[Variable, ...]
    returns: tuple[Variable, ...]
    directives: dict[str, tuple[int, ...]]
    line: int


@dataclass(slots=True)
class _Tables:
    """Branch target tables and call prototypes of one function, by label."""

    branches: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prototypes: dict[str, tuple[tuple[Variable, ...], tuple[Variable, ...]]] = field(default_factory=dict)


class _ModuleParser:
    def __init__(self, text: str) -> None:
        self._text = text
        self._header: dict[str, str] = {}
        self._locations = LocationReader(text)
        self._variables: list[Variable] = []
        self._functions: dict[str, Function] = {}
        self._aliases: dict[str, str] = {}
        self._head: _FunctionHead | None = None
        self._body: FunctionBuilder | None = None
        self._tables = _Tables()
        self._table: str | None = None

    def add(self, kind: str, match: re.Match[str], line: int) -> None:
        if kind == "instruction" and self._body is not None:
            self._body.instruction(match, self._locations.current, line)
        elif kind == "loc":
            self._locations.loc(match["loc"])
        elif self._head is not None and self._body is None and kind not in ("open", "end"):
            raise UnlocatedSyntaxError(f"expected '{{' or ';' after the head of '{self._head.name}'")
        elif kind == "label":
            self._label(match, line)
        elif kind == "pragma" and self._body is not None:
            self._body.pragma(match["pragma"], self._locations.current, line)
        elif kind == "declaration":
            self._declaration(match["declaration"].strip())
        elif kind == "open":
            self._open()
        elif kind == "close":
            self._close(line)
        elif kind == "end":
            if self._body is None:
                self._add(None, line)
        elif kind == "head":
            self._begin(match["head"], line)
        elif kind == "file":
            self._locations.file(match["file"])
        elif kind == "header":
            word, _, value = match["header"].rstrip("; \t\r").partition(" ")
            self._header[word] = value.strip()
        elif kind == "instruction":
            raise UnlocatedSyntaxError(f"an instruction outside a function: {shown(match['instruction'])}")

    def finish(self) -> Module:
        if self._head is not None:
            raise UnlocatedSyntaxError(f"expected '}}' at the end of '{self._head.name}'")
        if ".version" not in self._header:
            raise PtxError("expected .version: not a PTX file")
        for alias, name in self._aliases.items():
            if name in self._functions:
                self._functions[alias] = self._functions[name]
        size = self._header.get(".address_size", "64")
        return Module(
            version=self._header[".version"],
            target=self._header.get(".target", "").split(",")[0].strip(),
            address_size=32 if size == "32" else 64,
            files=self._locations.files,
            variables=tuple(self._variables),
            functions=self._functions,
            text=self._text,
        )

    def _begin(self, text: str, line: int) -> None:
        if self._body is not None:
            raise UnlocatedSyntaxError("expected '}' before the next function")
        match = _HEAD.fullmatch(text)
        if match is None:
            raise UnlocatedSyntaxError(f"expected a function name and parameters, found {shown(text)}")
        directives = {
            found[1]: tuple(map(int, _NUMBER.findall(found[2]))) for found in _DIRECTIVE.finditer(match["directives"])
        }
        params, returns = _parameters(match["params"]), _parameters(match["returns"])
        self._head = _FunctionHead(match["name"], match["kind"] == "entry", params, returns, directives, line)

    def _open(self) -> None:
        if self._body is not None:
            self._body.open()
        elif self._head is not None:
            self._body = FunctionBuilder()
            for parameter in (*self._head.returns, *self._head.params):
                if parameter.space == "reg":
                    self._body.declare_register(parameter.name, parameter.type)
            self._tables = _Tables()
            self._locations.start_function()
        else:
            raise UnlocatedSyntaxError("a block outside a function")

    def _close(self, line: int) -> None:
        if self._body is None:
            raise UnlocatedSyntaxError("unmatched '}'")
        if self._body.depth:
            self._body.close()
        else:
            self._add(self._body, line)
            self._body = None

    def _add(self, body: FunctionBuilder | None, line: int) -> None:
        head, self._head = self._head, None
        if head is None:
            return
        if body is None and head.name in self._functions:
            return  # a repeated declaration, or one after the definition
        self._functions[head.name] = Function(
            name=head.name,
            is_entry=head.is_entry,
            params=head.params,
            returns=head.returns,
            registers=body.registers if body else {},
            variables=tuple(body.variables) if body else (),
            body=tuple(body.items) if body else None,
            directives=head.directives,
            branch_targets=self._tables.branches if body else {},
            prototypes=self._tables.prototypes if body else {},
            text_lines=(head.line, line),
        )

    def _label(self, match: re.Match[str], line: int) -> None:
        if self._body is None:
            raise UnlocatedSyntaxError(f"a label outside a function: '{match['label']}'")
        if _TABLE.match(match.string, match.end()):
            self._table = match["label"]
        else:
            self._body.label(match["label"], line)

    def _declaration(self, text: str) -> None:
        if text.startswith(".alias"):
            alias = _ALIAS.fullmatch(text)
            if alias is None:
                raise UnlocatedSyntaxError(f"expected .alias NAME, FUNCTION, found {shown(text)}")
            self._aliases[alias[1]] = alias[2]
        elif self._body is None:
            self._variables.append(variable(text))
        elif text.startswith(".reg"):
            self._body.declare_registers(text)
        elif self._table is not None:
            self._fill_table(self._table, text)
            self._table = None
        else:
            self._body.declare_variable(text)

    def _fill_table(self, label: str, text: str) -> None:
        if text.startswith(".branchtargets"):
            self._tables.branches[label] = tuple(name.strip() for name in text[len(".branchtargets") :].split(","))
        elif text.startswith(".callprototype"):
            groups = _GROUPS.findall(text)
            returns, params = groups if len(groups) == 2 else ("", groups[0] if groups else "")
            if len(groups) == 1 and text[len(".callprototype") :].lstrip().startswith("("):
                returns, params = groups[0], ""
            self._tables.prototypes[label] = (_parameters(returns), _parameters(params))


def _parameters(text: str | None) -> tuple[Variable, ...]:
    if not text or text.isspace():
        return ()
    found = tuple(variable(part, "param") for part in split(text))
    names = [one.name for one in found if one.name != "_"]
    for name in names:
        if names.count(name) > 1:
            raise UnlocatedSyntaxError(f"redefinition of parameter '{name}'")
    return found
