"""Records of the kinds of value that a key of gpuemu.toml can have.

The validator (:mod:`.check`), the JSON schema and the documentation (:mod:`.schema`) use the same records, so they
cannot disagree.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeAlias

from gpuemu_lsp.engine.findings import Json

DTYPES = {
    "float64": "float64",
    "f64": "float64",
    "float32": "float32",
    "f32": "float32",
    "float16": "float16",
    "f16": "float16",
    "half": "float16",
    "bfloat16": "bfloat16",
    "bf16": "bfloat16",
    "float8_e4m3fn": "float8_e4m3fn",
    "float8_e5m2": "float8_e5m2",
    "int64": "int64",
    "i64": "int64",
    "int32": "int32",
    "i32": "int32",
    "int16": "int16",
    "i16": "int16",
    "int8": "int8",
    "i8": "int8",
    "uint64": "uint64",
    "u64": "uint64",
    "uint32": "uint32",
    "u32": "uint32",
    "uint16": "uint16",
    "u16": "uint16",
    "uint8": "uint8",
    "u8": "uint8",
    "bool": "bool",
}
"""NumPy or ml_dtypes name by accepted spelling."""

ARCH_PATTERN = r"sm_([5-9][0-9]|1[0-9][0-9])[af]?"
"""Real architectures; NVRTC rejects those that the installed toolkit does not support."""


PYTHON_VALUE = r"'[^'\\]*'|None|tl\.[a-z][a-z0-9]*"
"""Compile-time values that are written as in Python: a string in single quotes, None, a type such as tl.float16."""


@dataclass(frozen=True, slots=True)
class String:
    """A string; one of ``choices`` if there are any. ``what`` is its meaning in messages ("a C++ name")."""

    choices: tuple[str, ...] = ()
    what: str = "a string"


@dataclass(frozen=True, slots=True)
class Integer:
    """An integer in ``[minimum, maximum]``; a boolean is not one."""

    minimum: int = 0
    maximum: int | None = None


@dataclass(frozen=True, slots=True)
class Real:
    """A number other than NaN; ``infinite`` allows ``inf`` and ``-inf``."""

    minimum: float | None = None
    infinite: bool = False


@dataclass(frozen=True, slots=True)
class Boolean:
    """``true`` or ``false``."""


@dataclass(frozen=True, slots=True)
class Dtype:
    """The name of an element type; normalised by :data:`DTYPES`."""


@dataclass(frozen=True, slots=True)
class Arch:
    """``sm_NN``."""


@dataclass(frozen=True, slots=True)
class PathTo:
    """The path of an existing file or folder; stored as an absolute path. ``function`` allows ``file.py:function``."""

    folder: bool = False
    function: bool = False


@dataclass(frozen=True, slots=True)
class Formula:
    """An integer or an expression of :mod:`.expressions`. The minimum is checked if the expression is constant."""

    minimum: int | None = None


@dataclass(frozen=True, slots=True)
class Constexpr:
    """A compile-time value of Triton: a number, a boolean, an expression, or one of :data:`PYTHON_VALUE`."""


@dataclass(frozen=True, slots=True)
class Literal:
    """A value that is passed on as it is: text, a number, a boolean, or a list of these."""


@dataclass(frozen=True, slots=True)
class Options:
    """Compiler options: a list of strings, or one string that is split as in a shell."""


@dataclass(frozen=True, slots=True)
class Sequence:
    """A list of ``item``. ``single`` allows a bare value in place of a list with one item."""

    item: ValueKind
    minimum: int = 1
    maximum: int | None = None
    single: bool = True


@dataclass(frozen=True, slots=True)
class Either:
    """The first alternative whose TOML type the value has."""

    alternatives: tuple[ValueKind, ...]


@dataclass(frozen=True, slots=True)
class ConfigKey:
    """A key of a table. ``default`` (None: absence has its own meaning) and ``example`` are TOML values.

    A ``required`` key may be absent where the key named by ``unless`` is given.
    """

    name: str
    kind: ValueKind
    doc: str
    example: Json = None
    default: Json = None
    required: bool = False
    unless: str | None = None


@dataclass(frozen=True, slots=True)
class Table:
    """A table of known keys, or of keys that the user names (``free``) with the syntax ``names``."""

    keys: tuple[ConfigKey, ...] = ()
    free: ConfigKey | None = None
    names: str = "any"  # "any" | "identifier" | "argument" | "dtype"
    some: bool = False  # an empty table is an error

    def key(self, name: str) -> ConfigKey | None:
        """Return the known key of that name."""
        return next((key for key in self.keys if key.name == name), None)


@dataclass(frozen=True, slots=True)
class Tables:
    """An array of tables: ``[[kernels]]``."""

    table: Table


ValueKind: TypeAlias = (
    "String | Integer | Real | Boolean | Dtype | Arch | PathTo | Formula | Constexpr | Literal | Options | Sequence"
    " | Either | Table | Tables"
)


def accepts(kind: ValueKind) -> frozenset[str]:
    """Return the TOML types (names of :func:`toml_type`) that a value of this kind may have."""
    match kind:
        case String() | Dtype() | Arch() | PathTo():
            return frozenset({"string"})
        case Integer():
            return frozenset({"integer"})
        case Real():
            return frozenset({"integer", "float"})
        case Boolean():
            return frozenset({"boolean"})
        case Formula():
            return frozenset({"integer", "string"})
        case Constexpr():
            return frozenset({"integer", "float", "boolean", "string"})
        case Literal():
            return frozenset({"integer", "float", "boolean", "string", "array"})
        case Options():
            return frozenset({"array", "string"})
        case Sequence():
            return frozenset({"array"}) | (accepts(kind.item) if kind.single else frozenset())
        case Either():
            return frozenset[str]().union(*(accepts(alternative) for alternative in kind.alternatives))
        case Table():
            return frozenset({"table"})
        case Tables():
            return frozenset({"array"})


def toml_type(value: object) -> str:
    """Return the name of a parsed value's TOML type."""
    match value:
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "float"
        case str():
            return "string"
        case list():
            return "array"
        case dict():
            return "table"
        case _:
            return "date or time"


def describe(kind: ValueKind) -> str:
    """Describe the values allowed, to follow "must be"."""
    match kind:
        case String(choices=choices, what=what):
            return join(f'"{choice}"' for choice in choices) if choices else what
        case Integer(minimum=low, maximum=high):
            return f"an integer of at least {low}" if high is None else f"an integer from {low} to {high}"
        case Real(minimum=None):
            return "a number"
        case Real(minimum=low):
            return f"a number of at least {low:g}"
        case Boolean():
            return "true or false"
        case Dtype():
            return "a dtype such as float32, float16, bfloat16 or int32"
        case Arch():
            return 'an architecture such as "sm_80"'
        case PathTo(folder=folder):
            return "the path of a folder" if folder else "the path of a file"
        case Formula():
            return "an integer or an expression over dims"
        case Constexpr():
            return "a number, true or false, an expression over dims, or Python text such as `'sum'` or `tl.float16`"
        case Literal():
            return "text, a number, true or false, or a list of these"
        case Options():
            return "a list of strings or one string"
        case Sequence():
            return _describe_sequence(kind)
        case Either(alternatives=alternatives):
            return join(describe(alternative) for alternative in alternatives)
        case Table():
            return "a table"
        case Tables():
            return "an array of tables"


def join(parts: Iterable[str], word: str = "or") -> str:
    """Return ``a``, ``a or b``, ``a, b or c``."""
    words = list(parts)
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {word} {words[-1]}"


def _describe_sequence(kind: Sequence) -> str:
    if kind.minimum == kind.maximum:
        return f"a list of {kind.minimum} values, each {describe(kind.item)}"
    count = "" if kind.maximum is None else f" of 1 to {kind.maximum}"
    return f"{describe(kind.item)}, or a list{count}" if kind.single else f"a list{count}, each {describe(kind.item)}"
