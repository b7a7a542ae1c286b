"""The functions, classes and variables of a program's files, as its front ends declare them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from gpuemu_lsp.engine.hostcode.ir import (
    Block,
    Constant,
    Declare,
    Expression,
    HostParameter,
    ListValue,
    ReturnStatement,
    Statement,
)
from gpuemu_lsp.engine.hostcode.walk import walk

_WORD = re.compile(rb"[A-Za-z_]\w*")


@dataclass(frozen=True, slots=True)
class TemplateParameter:
    """A parameter of a template: a type, or a number if ``number``. ``default`` is as written, or empty."""

    name: str
    number: bool = False
    default: str = ""


@dataclass(frozen=True)
class FunctionBody:
    """What a function does: its parameters, the members that a constructor initialises, and its statements."""

    parameters: tuple[HostParameter, ...]
    statements: Block | None
    members: tuple[tuple[str, ListValue], ...] = ()
    variadic: bool = False
    """It may have other arguments besides those for its parameters."""

    @cached_property
    def returns_once(self) -> bool:
        """Whether it returns at its end only, so that what it asserts holds after every call of it."""
        listed = self.statements.statements if self.statements is not None else ()
        returns = sum(isinstance(node, ReturnStatement) for statement in listed for node in walk(statement))
        return returns == int(isinstance(listed[-1], ReturnStatement)) if listed else True

    @cached_property
    def shared_lengths(self) -> frozenset[int]:
        """The lengths of the arrays in shared memory that it declares, as far as they are numbers."""
        nodes = walk(self.statements) if self.statements is not None else ()
        declared = (node.lengths[0] for node in nodes if isinstance(node, Declare) and node.shared and node.lengths)
        return frozenset(each.value for each in declared if isinstance(each, Constant) and type(each.value) is int)

    def accepts(self, count: int) -> bool:
        """Return whether it may be called with a number of arguments."""
        needed = sum(one.default is None for one in self.parameters)
        return needed <= count and (self.variadic or count <= len(self.parameters))


@dataclass(frozen=True, eq=False)
class HostFunction:
    """A function with a body, which is lowered when something asks for it.

    ``line`` is the line of its first character, to which the ranges of its nodes are relative. ``kernels`` are those
    that it launches under other names than their own. ``code`` is its text.
    """

    name: str
    path: str
    line: int
    code: bytes
    lower: Callable[[], FunctionBody]
    unit: HostProgram = field(repr=False)
    """The program whose constants and types its body uses."""
    template: tuple[TemplateParameter, ...] = ()
    owner: str | None = None
    """The class that it is a member of."""
    may_be_member: bool = False
    """Whether it is defined in a class, or by a qualified name: that of a class, or of a namespace."""
    launches: bool = False
    """Whether its text has a launch, or finds a kernel by its name."""
    kernels: frozenset[str] = frozenset()

    @cached_property
    def body(self) -> FunctionBody:
        """What it does."""
        return self.lower()

    @cached_property
    def words(self) -> frozenset[str]:
        """The names in it."""
        return self.kernels.union(word.decode() for word in _WORD.findall(self.code))


@dataclass(frozen=True, eq=False)
class HostVariable:
    """A declaration at namespace scope, which may be one of several variables.

    ``table``: a list of constants or of functions, which a program does not change. ``defined``: not only ``extern``.
    """

    code: bytes
    lower: Callable[[], tuple[Statement, ...]]
    constant: bool = False
    table: bool = False
    defined: bool = True

    @cached_property
    def words(self) -> frozenset[str]:
        """The names in it."""
        return frozenset(word.decode() for word in _WORD.findall(self.code))

    @cached_property
    def statements(self) -> tuple[Statement, ...]:
        """The declarations."""
        return self.lower()


@dataclass(frozen=True, slots=True)
class MemberVariable:
    """A member of a class that is a variable. A static one, too, has its value as ``default``."""

    name: str
    type: str
    pointers: int = 0
    lengths: tuple[Expression | None, ...] = ()
    default: Expression | None = None


@dataclass(frozen=True)
class HostStruct:
    """A class. ``aliases`` are the types that it names; ``plain``: nothing but its fields decides its size."""

    name: str
    lower: Callable[[], tuple[MemberVariable, ...]]
    aliases: Mapping[str, str] = field(default_factory=dict)
    template: tuple[TemplateParameter, ...] = ()
    plain: bool = True

    @cached_property
    def members(self) -> tuple[MemberVariable, ...]:
        """Its variables, in order."""
        return self.lower()


@dataclass(frozen=True, slots=True)
class Instantiation:
    """An explicit instantiation of a function template: ``template void scale<4>(float*, int);``."""

    arguments: tuple[str, ...]
    parameters: tuple[HostParameter, ...]

    def template_arguments(self, function: HostFunction) -> tuple[str, ...]:
        """Return the arguments of a function's template, as far as they and the types of the parameters say."""
        found = list(self.arguments)
        pairs = list(zip(function.body.parameters, self.parameters, strict=False))
        for parameter in function.template[len(found) :]:
            given = (own for declared, own in pairs if declared.type == parameter.name)
            deduced = next((own.type for own in given), parameter.default)
            if not deduced:
                break
            found.append(deduced)
        return tuple(found)


@dataclass(slots=True)
class HostProgram:
    """The declarations of one translation unit, or of one module.

    ``constants`` are macros, constants and enumerators as written, which ``expression`` lowers.
    """

    constants: Mapping[str, str]
    expression: Callable[[str], Expression | None]
    changes: Callable[[HostFunction], Iterable[str]]
    """Returns names that a function assigns, or of which it takes the address, before it is lowered."""
    functions: dict[str, list[HostFunction]] = field(default_factory=dict)
    structs: dict[str, HostStruct] = field(default_factory=dict)
    variables: dict[str, HostVariable] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)
    kernels: dict[str, list[HostFunction]] = field(default_factory=dict)
    """Kernels by name; those in CUDA C++ with their definitions, which no host code executes."""
    device_functions: dict[str, list[HostFunction]] = field(default_factory=dict)
    """Functions that only device code calls."""
    launching_macros: frozenset[str] = frozenset()
    """Macros whose text has a launch."""
    prototypes: set[str] = field(default_factory=set)
    """Names of functions that are declared, without a body."""
    instances: dict[str, list[Instantiation]] = field(default_factory=dict)
    """Explicit instantiations, by function."""
    methods: set[str] = field(default_factory=set)
    """Names of member functions that a class declares, without a body."""
    assigned: frozenset[str] | None = None
    """Names that its functions assign, or of which they take the address."""
    linked: tuple[HostProgram, ...] = ()
    """Other translation units of the same program: they call functions of this one, or define what it calls."""
    imported: Callable[[str], HostFunction | HostVariable | None] = lambda name: None
    """Returns a function or variable of another module by its name in this one."""

    def all_functions(self) -> list[HostFunction]:
        """Return the functions of this unit."""
        return [one for listed in self.functions.values() for one in listed]

    def on_device(self) -> list[HostFunction]:
        """Return the kernels and the functions of the device."""
        return [one for listed in (*self.kernels.values(), *self.device_functions.values()) for one in listed]

    def device_code(self) -> Iterator[Statement]:
        """Yield what the kernels and the functions of the device do, statement by statement."""
        for function in self.on_device():
            yield from () if function.body.statements is None else function.body.statements.statements

    def assigns(self, name: str) -> bool:
        """Return whether a function of this unit may change a variable of a name."""
        if self.assigned is None:
            self.assigned = frozenset(name for one in self.all_functions() for name in self.changes(one))
        return name in self.assigned

    def find(self, name: str, *, method: bool = False) -> list[HostFunction]:
        """Return the functions of a name: this unit's, or those that other units of the program define.

        With ``method`` also the member functions that other units define.
        """
        own = self.functions.get(name)
        if own:
            return own
        imported = self.imported(name)
        if isinstance(imported, HostFunction):
            return [imported]
        there = [one for unit in self.linked for one in unit.functions.get(name, ())]
        if name in self.prototypes:
            return there
        return [one for one in there if one.may_be_member] if method and name in self.methods else []

    def variable(self, name: str) -> tuple[HostProgram, HostVariable] | None:
        """Return the declaration of a variable at namespace scope, with its unit; a definition if there is one."""
        if name not in self.variables:
            imported = self.imported(name)
            return (self, imported) if isinstance(imported, HostVariable) else None
        units = [(unit, unit.variables[name]) for unit in (self, *self.linked) if name in unit.variables]
        return next((one for one in units if one[1].defined), units[0])


def link(units: Sequence[HostProgram]) -> None:
    """Make translation units know each other's functions and variables."""
    for unit in units:
        unit.linked = tuple(one for one in units if one is not unit)
