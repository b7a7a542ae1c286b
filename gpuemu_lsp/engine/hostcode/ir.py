"""Host code as data: one small intermediate representation for every language of a program.

A front end (:mod:`.cpp.lower`, :mod:`.python.lower`) turns the syntax tree of one item (a function, a declaration at
namespace scope, the statements of a module) into these nodes; the interpreter knows nothing but them. Nodes are frozen,
are compared by what they say and not by where it is written, and may be shared by every interpretation of a file.

Expressions
-----------
An expression has a value, and may have effects.

=====================  =================================================  ==========================================
node                   C++                                                Python
=====================  =================================================  ==========================================
Constant               ``4``, ``1.5f``, ``"k"``, ``true``, ``nullptr``    ``4``, ``1.5``, ``"k"``, ``True``, ``None``
NameUse                ``n``, ``a::b``, ``kernel<float, 4>``              ``n``; ``cp.empty`` is ``cupy::empty``
UnaryOperation         ``-a``, ``+a``, ``~a``, ``!a``                     ``-a``, ``+a``, ``~a``, ``not a``
BinaryOperation        arithmetic, comparisons, ``&&``, ``||``            also ``//``; ``a < b < c`` is a conjunction
Conditional            ``c ? a : b``                                      ``a if c else b``
Subscript              ``a[i]``                                           ``a[i]``; of ``a[i, j]`` the index is a list
FieldAccess            ``a.b``, ``a->b``                                  ``a.b`` of an object; ``x.shape``, ``x.size``
AddressOf, Dereference ``&a``, ``*p``                                     not used
Assign                 ``a = b``, ``a += b``, ``++a``, ``a++``            ``a = b``, ``a += b``, ``a := b``
CallExpression         ``f(a)``, ``x.size(0)``, ``f<4>(a)``               ``f(a, key=b)``, ``x.numel()``
Launch                 ``k<<<grid, block, shared>>>(a, n)``               ``k[grid](a, n)``, ``k(grid, block, (a, n))``
Cast                   ``(T)a``, ``T(a)``, ``static_cast<T>(a)``          ``int(a)``, ``np.int32(a)``
SizeOf                 ``sizeof(T)``, ``sizeof a``                        not used
ListValue              ``{a, b}``, ``{.x = a}``, arguments of ``T x(a)``  tuples, lists, dictionaries of names
Spread                 not used                                           ``*a`` in a list, arguments or a target
Construct              ``T{a, b}``                                        not used: a class is called
LambdaValue            ``[&](auto x) { ... }``                            ``lambda x: ...``
CommaExpression        ``a, b``                                           not used
UnknownCode            anything else                                      anything else
=====================  =================================================  ==========================================

The names of modules and classes are separated by ``::``. A front end resolves what its language's imports say, so that
a function of a library has one name: ``torch::empty_like``, ``cupy::empty_like``, ``numpy::empty_like``. Functions that
mean the same in all languages have C++'s name: Python's ``len`` stays ``len``, ``math.ceil`` is ``ceil``.

Operators are C++'s, and ``in``. ``/`` is the quotient of C++, which of two integers is rounded towards zero; ``//`` is
rounded down; ``real/`` is the exact quotient, Python's ``/``, and ``**`` is Python's power. ``new T[n]`` is a call of
``new<T>(n)``.

Types are written as in C++: ``int``, ``const float``, ``std::vector<int>``. ``auto`` is one that the initialiser says,
``torch::Tensor`` an array of PyTorch, CuPy or NumPy, or device memory of PyCUDA.

Statements
----------
A statement is an expression or one of: Block, Declare, DeclareParts, IfStatement, SwitchStatement, Loop, RangeLoop,
ReturnStatement, JumpStatement, TypeName. An assertion is a call of ``assert``: what it asserts holds from there on.

A variable is declared by a Declare in the innermost Block; a function in Python declares at its begin what it assigns.
``for (i = a; i < b; i += c)`` and ``for i in range(a, b, c)`` are the same Loop. Python's ``match`` is a
SwitchStatement each of whose cases ends with ``JumpStatement("break")``. ``with`` is its body.

What is not known
-----------------
A front end never fails. Code that has no node is UnknownCode with its range: its parts are evaluated in order, and its
value is not known. Code whose syntax is wrong is UnknownCode without parts, or left out.

Ranges
------
Lines are counted from the first line of the item, columns in bytes from the begin of the line: a function that moves
keeps its nodes, which are remembered by the text of the item. Code that a macro expands to has the range of the macro's
use. :attr:`.program.HostFunction.line` is the line of the item in its file.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias


class Span(NamedTuple):
    """Where some code is: lines from the begin of its item, columns in bytes; the end is behind the last character."""

    line: int = 0
    column: int = 0
    end_line: int = 0
    end_column: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class _Code:
    span: Span = field(default=Span(), compare=False)


@dataclass(frozen=True, slots=True)
class Constant(_Code):
    """A number, a string, a truth value, or the null pointer: None."""

    value: int | float | str | bool | None


@dataclass(frozen=True, slots=True)
class NameUse(_Code):
    """A variable, a constant, a function, a kernel or a type.

    ``name`` has its scopes (``ns::Traits<4>::kRows``), but not the template ``arguments`` of its last part. These are
    as written, and None where there are none.
    """

    name: str
    arguments: tuple[str, ...] | None = None

    @property
    def base(self) -> str:
        """The last part of the name."""
        return self.name.rpartition("::")[2]


@dataclass(frozen=True, slots=True)
class UnaryOperation(_Code):
    """``-``, ``+``, ``~`` or ``!`` of a value."""

    operator: str
    operand: Expression


@dataclass(frozen=True, slots=True)
class BinaryOperation(_Code):
    """``+ - * / // real/ % << >> & | ^``, a comparison ``== != < <= > >=``, ``in``, ``&&`` or ``||``."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Conditional(_Code):
    """``then`` where a condition is true, and ``other`` elsewhere."""

    condition: Expression
    then: Expression
    other: Expression


@dataclass(frozen=True, slots=True)
class Subscript(_Code):
    """An element of an array, a list, or the sizes of a tensor."""

    base: Expression
    index: Expression


@dataclass(frozen=True, slots=True)
class FieldAccess(_Code):
    """A member of an object; ``arrow``: of the object that a pointer points to.

    ``arguments`` are the template arguments of a method.
    """

    base: Expression
    name: str
    arrow: bool = False
    arguments: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class AddressOf(_Code):
    """The address of a variable, a field, an element or a function."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Dereference(_Code):
    """What a pointer points to."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Assign(_Code):
    """``target = value``, with an ``operator`` ``target operator= value``; its value is that of the target.

    A ``target`` that is a ListValue is assigned the parts of the value.

    ``before``: its value is that of the target before, as of ``i++``.
    """

    target: Expression
    value: Expression
    operator: str = ""
    before: bool = False


@dataclass(frozen=True, slots=True)
class Spread(_Code):
    """The items of a list, each as an item of its own; in a target of an assignment those that are left."""

    value: Expression


@dataclass(frozen=True, slots=True)
class CallExpression(_Code):
    """A call of a function, a method (``callee`` is a FieldAccess), or a value that is a function.

    The name of a keyword is ``**`` for a list of named values that are keywords.
    """

    callee: Expression
    arguments: tuple[Expression, ...]
    keywords: tuple[tuple[str, Expression], ...] = ()


@dataclass(frozen=True, slots=True)
class Launch(_Code):
    """A launch of a kernel.

    ``grid`` and ``block`` are a ListValue, a ``dim3``, or a number, ``grid`` may be a function of the arguments by
    name; ``kernel`` is the name of the kernel in device code, or an expression whose value is one.
    """

    kernel: Expression
    grid: Expression
    block: Expression
    shared: Expression | None
    arguments: tuple[Expression, ...]
    keywords: tuple[tuple[str, Expression], ...] = ()


@dataclass(frozen=True, slots=True)
class Cast(_Code):
    """A value converted to a type."""

    type: str
    value: Expression


@dataclass(frozen=True, slots=True)
class SizeOf(_Code):
    """The bytes of a type, or of an object where ``value`` is there; a NameUse may be either."""

    type: str = ""
    value: Expression | None = None


@dataclass(frozen=True, slots=True)
class ListValue(_Code):
    """A list of values, by position or, where ``names`` is not empty there, by the name of a field.

    ``constructor``: the arguments of a constructor, as in ``dim3 grid(x, y)``, which are a list in no other way.
    """

    items: tuple[Expression, ...]
    names: tuple[str, ...] = ()
    constructor: bool = False

    def keys(self) -> tuple[str, ...]:
        """Return the key of each item: ``[position]``, or the name of a field."""
        names = self.names or ("",) * len(self.items)
        return tuple(name or f"[{index}]" for index, name in enumerate(names))


@dataclass(frozen=True, slots=True)
class Construct(_Code):
    """An object of a type made of a list."""

    type: str
    value: ListValue


@dataclass(frozen=True, slots=True)
class LambdaValue(_Code):
    """A function without a name, which uses the variables around it."""

    parameters: tuple[HostParameter, ...]
    body: Block


@dataclass(frozen=True, slots=True)
class CommaExpression(_Code):
    """Expressions of which the last one is the value."""

    parts: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class UnknownCode(_Code):
    """Code that has no other node. It may write to the memory that its parts point to, unless it is ``harmless``."""

    parts: tuple[Expression, ...] = ()
    harmless: bool = False


Expression: TypeAlias = (
    Constant | NameUse | UnaryOperation | BinaryOperation | Conditional | Subscript | FieldAccess | AddressOf
    | Dereference | Assign | CallExpression | Launch | Cast | SizeOf | ListValue | Construct | LambdaValue
    | CommaExpression | UnknownCode | Spread
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Block(_Code):
    """Statements in order. ``scope``: variables declared in it end with it."""

    statements: tuple[Statement, ...]
    scope: bool = True


@dataclass(frozen=True, slots=True)
class Declare(_Code):
    """Declare a variable: ``pointers`` is the number of ``*``, ``lengths`` those of an array, None if not written.

    ``shared``: in the shared memory of a kernel.
    """

    name: str
    type: str
    value: Expression | None = None
    pointers: int = 0
    reference: bool = False
    lengths: tuple[Expression | None, ...] = ()
    shared: bool = False


@dataclass(frozen=True, slots=True)
class DeclareParts(_Code):
    """Declare variables for the parts of a value: ``auto [a, b] = f()``, ``a, b = x.shape``.

    A value that is the sizes of a tensor has as many of them as there are names.
    """

    names: tuple[str, ...]
    value: Expression


@dataclass(frozen=True, slots=True)
class IfStatement(_Code):
    """Execute one of two statements. Where a condition declares a variable, it is UnknownCode after the Declare."""

    condition: Expression
    then: Statement | None
    other: Statement | None


@dataclass(frozen=True, slots=True)
class SwitchCase(_Code):
    """Statements from a label on, which continue with those of the next case. Without a label, the default."""

    label: Expression | None
    statements: tuple[Statement, ...]


@dataclass(frozen=True, slots=True)
class SwitchStatement(_Code):
    """Continue at the case whose label is a value."""

    value: Expression
    cases: tuple[SwitchCase, ...]


@dataclass(frozen=True, slots=True)
class Loop(_Code):
    """Execute ``body`` and ``update`` while a condition, if there is one, is true; at least once if ``first``.

    A counted loop has a condition ``name < end`` (``<=``, ``!=``) and an update ``Assign(name, step, "+")``.
    """

    start: tuple[Statement, ...]
    condition: Expression | None
    update: Expression | None
    body: Statement | None
    first: bool = False


@dataclass(frozen=True, slots=True)
class RangeLoop(_Code):
    """Execute ``body`` for each element of a value; several names are the parts of an element."""

    type: str
    names: tuple[str, ...]
    source: Expression
    body: Statement | None


@dataclass(frozen=True, slots=True)
class ReturnStatement(_Code):
    """Return from the function."""

    value: Expression | None = None


@dataclass(frozen=True, slots=True)
class JumpStatement(_Code):
    """``break``, ``continue``, or ``exit``: an exception, or the end of the program."""

    kind: str


@dataclass(frozen=True, slots=True)
class TypeName(_Code):
    """Another name for a type."""

    name: str
    type: str


Statement: TypeAlias = (
    Expression | Block | Declare | DeclareParts | IfStatement | SwitchStatement | Loop | RangeLoop | ReturnStatement
    | JumpStatement | TypeName
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class HostParameter:
    """A parameter: ``pointers`` is the number of ``*`` and ``[]``. ``default`` is its value where none is given."""

    name: str
    type: str
    pointers: int = 0
    reference: bool = False
    default: Expression | None = None


Node: TypeAlias = Statement | SwitchCase | HostParameter
