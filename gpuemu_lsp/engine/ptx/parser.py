"""PTX text to a :class:`Module`. One pass; a function body is a flat list of labels and instructions."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.ptx.model import (
    Function,
    Guard,
    Instruction,
    Label,
    Location,
    Module,
    Operand,
    Register,
    Symbol,
    Variable,
    Vector,
)
from gpuemu_lsp.engine.ptx.operands import OperandError, operand, split
from gpuemu_lsp.engine.ptx.statements import PtxError, Statement, statements
from gpuemu_lsp.engine.ptx.variables import DeclarationError, variable

_LOC = re.compile(
    r"\.loc\s+(\d+)\s+(\d+)\s+(\d+)(?:\s*,\s*function_name\s+([\w$]+)(?:\s*\+\s*(\d+))?\s*,\s*inlined_at\s+(\d+)\s+(\d+)\s+(\d+))?"
)
_FILE = re.compile(r'\.file\s+(\d+)\s+"((?:[^"\\]|\\.)*)"')
_REG = re.compile(r"\.reg\s+(?:\.(v[248])\s+)?\.(\w+)\s+(.*)", re.S)
_RANGE = re.compile(r"([%\w$]+)\s*<\s*(\d+)\s*>$")
_INSTRUCTION = re.compile(r"(?:@\s*(!?)\s*([%\w$]+)\s+)?([a-z_]\w*)((?:(?:\.|::)[\w]+(?:::\w+)*)*)\s*(.*)", re.S)
_CALL = re.compile(r"(?:\(\s*(.*?)\s*\)\s*,\s*)?([%\w$]+)\s*(?:,\s*\(\s*(.*?)\s*\))?\s*(?:,\s*([\w$]+))?$", re.S)
_HEAD = re.compile(
    r"(?P<linkage>(?:\.(?:visible|extern|weak|common)\s+)*)\.(?P<kind>entry|func)\s*(?P<returns>\([^)]*\))?\s*"
    r"(?P<name>[\w$%]+)\s*(?P<params>\([^)]*\))?\s*(?P<rest>.*)",
    re.S,
)
_DIRECTIVE = re.compile(r"\.(\w+)((?:\s*\d+\s*,?)*)")


def parse(text: str) -> Module:
    """Read a PTX file.

    Raises
    ------
    PtxError
        If it cannot be read; the message says what and on which line.
    """
    reader = _Reader(text)
    line = 0
    try:
        for statement in statements(text):
            line = statement.line
            reader.take(statement)
    except (OperandError, DeclarationError) as error:
        raise PtxError(str(error), line) from None
    return reader.module(text, line)


@dataclass(slots=True)
class _Body:
    """A function while it is read."""

    head: re.Match[str]
    registers: dict[str, str] = field(default_factory=dict)
    variables: list[Variable] = field(default_factory=list)
    items: list[Instruction | Label] = field(default_factory=list)
    targets: dict[str, tuple[str, ...]] = field(default_factory=dict)
    prototypes: dict[str, tuple[tuple[Variable, ...], tuple[Variable, ...]]] = field(default_factory=dict)
    scopes: list[dict[str, str]] = field(default_factory=list)
    inner: int = 0

    def rename(self, name: str) -> str:
        """Return the unique name of a name in the current scope."""
        if len(self.scopes) > 1:
            for scope in reversed(self.scopes):
                if name in scope:
                    return scope[name]
        return name

    def declare(self, name: str) -> str:
        """Give a name of an inner scope a unique one."""
        if len(self.scopes) > 1:
            self.inner += 1
            self.scopes[-1][name] = f"{name}@{self.inner}"
            return self.scopes[-1][name]
        return name

    def is_register(self, name: str) -> bool:
        return self.rename(name) in self.registers


class _Reader:
    def __init__(self, text: str) -> None:
        self._version = self._target = ""
        self._address_size = 64
        self._files: dict[int, str] = {}
        self._strings = _info_strings(text)
        self._variables: list[Variable] = []
        self._functions: dict[str, Function] = {}
        self._body: _Body | None = None
        self._head: re.Match[str] | None = None
        self._location: Location | None = None
        self._seen: dict[tuple[int, int, int], Location] = {}
        self._label: Statement | None = None

    def take(self, statement: Statement) -> None:
        kind = statement.kind
        if kind == "statement":
            self._statement(statement)
        elif kind == "line":
            self._line(statement)
        elif kind == "label":
            self._flush_label()
            self._label = statement
        elif kind == "head":
            self._begin(statement)
        elif kind == "open":
            self._open(statement)
        elif kind == "close":
            self._close(statement)

    def module(self, text: str, line: int) -> Module:
        if self._body is not None:
            raise PtxError(f"the function '{self._body.head['name']}' is not closed", line)
        if not self._version:
            raise PtxError("this is no PTX: it has no .version", 0)
        return Module(
            self._version, self._target, self._address_size, self._files, tuple(self._variables), self._functions, text
        )

    # ---- directives ---------------------------------------------------------------------------------------------

    def _line(self, statement: Statement) -> None:
        text = statement.text.strip().rstrip(";")
        if text.startswith(".loc"):
            self._loc(text)
        elif text.startswith(".file"):
            found = _FILE.match(text)
            if found:
                self._files[int(found[1])] = found[2].replace('\\"', '"').replace("\\\\", "\\")
        elif text.startswith(".version"):
            self._version = text.split()[1] if len(text.split()) > 1 else "?"
        elif text.startswith(".target"):
            self._target = text.removeprefix(".target").split(",")[0].strip()
        elif text.startswith(".address_size"):
            words = text.split()
            self._address_size = int(words[1]) if len(words) > 1 and words[1].isdigit() else 64

    def _loc(self, text: str) -> None:
        found = _LOC.match(text)
        if found is None:
            return
        file, line, column = int(found[1]), int(found[2]), int(found[3])
        outer = None
        function = None
        if found[4] is not None:
            function = self._strings.get((found[4], int(found[5] or 0)))
            at = (int(found[6]), int(found[7]), int(found[8]))
            outer = self._seen.get(at) or Location(*at)
        location = Location(file, line, column, function, outer)
        self._seen[(file, line, column)] = location
        self._location = location

    # ---- functions ----------------------------------------------------------------------------------------------

    def _begin(self, statement: Statement) -> None:
        head = _HEAD.match(statement.text)
        if head is None:
            raise PtxError("this function has no name", statement.line)
        self._head = head

    def _open(self, statement: Statement) -> None:
        if self._head is not None:
            self._body = _Body(self._head, scopes=[{}])
            self._head = None
            self._location = None
            self._seen = {}
        elif self._body is not None:
            self._flush_label()
            self._body.scopes.append({})
        else:
            raise PtxError("a block outside a function", statement.line)

    def _close(self, statement: Statement) -> None:
        if self._body is None:
            raise PtxError("a '}' without its '{'", statement.line)
        self._flush_label()
        if len(self._body.scopes) > 1:
            self._body.scopes.pop()
            return
        body = self._body
        self._body = None
        self._add(body.head, body)

    def _add(self, head: re.Match[str], body: _Body | None) -> None:
        name = head["name"]
        directives = {
            found[1]: tuple(map(int, re.findall(r"\d+", found[2]))) for found in _DIRECTIVE.finditer(head["rest"])
        }
        function = Function(
            name=name,
            is_entry=head["kind"] == "entry",
            params=_parameters(head["params"]),
            returns=_parameters(head["returns"]),
            registers=body.registers if body else {},
            variables=tuple(body.variables) if body else (),
            body=tuple(body.items) if body else None,
            directives=directives,
            branch_targets=body.targets if body else {},
            prototypes=body.prototypes if body else {},
        )
        if body is not None or name not in self._functions:
            self._functions[name] = function

    # ---- statements ---------------------------------------------------------------------------------------------

    def _statement(self, statement: Statement) -> None:
        text = statement.text.strip()
        if self._head is not None:
            head, self._head = self._head, None
            if text:
                raise PtxError(f"'{text[:40]}' stands where a function's body should begin", statement.line)
            self._add(head, None)
            return
        if not text:
            return
        if text[0] == "." and not text.startswith(".L"):
            self._declaration(text, statement)
        elif self._body is None:
            raise PtxError(f"'{text[:40]}' stands outside a function", statement.line)
        else:
            self._flush_label()
            self._body.items.append(self._instruction(text, statement.line))

    def _declaration(self, text: str, statement: Statement) -> None:
        body = self._body
        if body is None:
            if not text.startswith((".alias", ".attribute")):
                self._variables.append(variable(text))
            return
        if text.startswith(".reg"):
            self._registers(text, body)
        elif text.startswith(".branchtargets"):
            body.targets[self._pop_label(statement)] = tuple(split(text.removeprefix(".branchtargets").strip()))
        elif text.startswith(".callprototype"):
            body.prototypes[self._pop_label(statement)] = _prototype(text)
        elif text.startswith((".calltargets", ".pragma")):
            self._label = None
        else:
            declared = variable(text)
            unique = body.declare(declared.name)
            body.variables.append(_renamed(declared, unique))

    def _registers(self, text: str, body: _Body) -> None:
        found = _REG.match(text)
        if found is None:
            raise DeclarationError(f"'{text[:40]}' declares no registers")
        kind = found[2]
        for item in split(found[3]):
            ranged = _RANGE.match(item)
            names = [f"{ranged[1]}{index}" for index in range(min(int(ranged[2]), 1 << 20))] if ranged else [item]
            for name in names:
                body.registers[body.declare(name)] = kind

    def _instruction(self, text: str, line: int) -> Instruction:
        body = self._body
        assert body is not None
        found = _INSTRUCTION.match(text)
        if found is None:
            raise PtxError(f"'{text[:40]}' is no instruction", line)
        negated, predicate, opcode, suffix, rest = found.groups()
        guard = Guard(Register(body.rename(predicate)), negated == "!") if predicate else None
        modifiers = tuple(suffix[1:].split(".")) if suffix else ()
        operands = self._call(rest, line) if opcode == "call" else self._operands(rest)
        return Instruction(opcode, modifiers, operands, guard, self._location, line)

    def _operands(self, rest: str) -> tuple[Operand, ...]:
        body = self._body
        assert body is not None
        if not rest:
            return ()
        return tuple(operand(part, body.is_register, body.rename) for part in split(rest))

    def _call(self, rest: str, line: int) -> tuple[Operand, ...]:
        body = self._body
        assert body is not None
        found = _CALL.match(rest.strip())
        if found is None:
            raise PtxError(f"'call {rest[:40]}' is not understood", line)
        returns, callee, arguments, prototype = found.groups()

        def listed(text: str | None) -> Vector:
            return Vector(tuple(operand(part, body.is_register, body.rename) for part in split(text)) if text else ())

        target: Operand = Register(body.rename(callee)) if body.is_register(callee) else Symbol(callee)
        extra = (Symbol(prototype),) if prototype else ()
        return (listed(returns), target, listed(arguments), *extra)

    def _flush_label(self) -> None:
        if self._label is not None and self._body is not None:
            self._body.items.append(Label(self._label.text, self._label.line))
        self._label = None

    def _pop_label(self, statement: Statement) -> str:
        if self._label is None:
            raise PtxError("a table without its label", statement.line)
        label, self._label = self._label, None
        return label.text


def _info_strings(text: str) -> _Strings:
    """Read the names that ``function_name`` refers to from ``.section .debug_str``, by (label, offset)."""
    strings = _Strings()
    found = re.search(r"\.section\s+\.debug_str\s*\{([^}]*)\}", text)
    if found is None:
        return strings
    label, data = "", bytearray()
    for line in found[1].splitlines():
        line = line.strip()
        if line.endswith(":"):
            strings.add(label, bytes(data))
            label, data = line[:-1], bytearray()
        elif line.startswith(".b8"):
            data += bytes(int(number, 0) & 255 for number in line[3:].split(",") if number.strip())
    strings.add(label, bytes(data))
    return strings


class _Strings:
    """The bytes behind each label of the string section."""

    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}

    def add(self, label: str, data: bytes) -> None:
        self._data[label] = data

    def get(self, key: tuple[str, int]) -> str | None:
        """Return the zero-terminated string ``key[1]`` bytes after a label."""
        data = self._data.get(key[0])
        return None if data is None else data[key[1] :].split(b"\0", 1)[0].decode("utf-8", "replace")


def _parameters(text: str | None) -> tuple[Variable, ...]:
    inner = (text or "").strip().removeprefix("(").removesuffix(")").strip()
    return tuple(_parameter(part) for part in split(inner)) if inner else ()


def _parameter(text: str) -> Variable:
    cleaned = re.sub(r"\.ptr\b(\s*\.(?:global|const|shared|local))?(\s*\.align\s+\d+)?", "", text)
    if cleaned.strip().startswith(".reg"):
        cleaned = cleaned.replace(".reg", ".param", 1)
    return variable(cleaned, "param")


def _prototype(text: str) -> tuple[tuple[Variable, ...], tuple[Variable, ...]]:
    groups = re.findall(r"\(([^)]*)\)", text)
    if len(groups) == 2:
        return _parameters(groups[0]), _parameters(groups[1])
    return (), _parameters(groups[0]) if groups else ()


def _renamed(declared: Variable, name: str) -> Variable:
    if name == declared.name:
        return declared
    return replace(declared, name=name)
