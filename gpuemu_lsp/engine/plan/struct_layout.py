"""Layout of a struct that a kernel takes by value, by the rules of the Itanium C++ ABI for standard-layout types.

Members are placed in order, each at the next multiple of its alignment; the size is a multiple of the largest
alignment (section 2.2). nvcc uses the host's alignments on the device, and those of CUDA's vector types (CUDA C++
programming guide, table "Alignment requirements").
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.element_types import C_TYPE_OF, ElementType, dtype_size, element_type
from gpuemu_lsp.engine.hostcode.cpp.constants import constant_of
from gpuemu_lsp.engine.source.model import SourceFile, StructDecl, StructField
from gpuemu_lsp.engine.source.syntax.structs import template_arguments

_POINTER_BYTES = 8
_MAX_FIELDS = 512
_MAX_DEPTH = 8
_LANES = "xyzw"
_BUILTIN = {
    "dim3": StructDecl("dim3", "struct", tuple(StructField(name, "unsigned int") for name in "xyz")),
    "cudaExtent": StructDecl(
        "cudaExtent", "struct", tuple(StructField(name, "size_t") for name in ("width", "height", "depth"))
    ),
    "cudaPos": StructDecl("cudaPos", "struct", tuple(StructField(name, "size_t") for name in "xyz")),
}
"""Types of CUDA's headers."""


class LayoutError(Exception):
    """A type whose layout is not known; the message is a clause such as "it is a union"."""


@dataclass(frozen=True, slots=True)
class Leaf:
    """A scalar or pointer in a struct: ``path`` is ``x``, ``inner.n``, ``v.x`` or ``w[3]``, ``offset`` in bytes.

    ``element`` is the type of a scalar, or that a pointer points to (None if it has no dtype).
    """

    path: str
    offset: int
    type: str
    element: ElementType | None
    pointer_depth: int = 0
    const: bool = False


@dataclass(frozen=True, slots=True)
class StructLayout:
    """The leaves of a struct in memory order, its size and its alignment in bytes."""

    name: str
    leaves: tuple[Leaf, ...]
    size: int
    align: int


def struct_layout(text: str, source: SourceFile, aliases: Mapping[str, str]) -> StructLayout | None:
    """Return the layout of a type as written in a signature; None if it names no struct of the file.

    ``aliases`` are the template arguments and constants of the kernel instance.

    Raises
    ------
    LayoutError
        If the struct's layout cannot be computed.
    """
    found = _Types(source, {**source.type_names, **aliases})
    declaration, bound = found.struct(text)
    return None if declaration is None else found.layout(declaration, bound, 0)


@dataclass(frozen=True, slots=True)
class _Types:
    """The types of one file, with the names that are replaced in them."""

    source: SourceFile
    names: Mapping[str, str]

    def struct(self, text: str) -> tuple[StructDecl | None, dict[str, str]]:
        """Return the definition of a struct and its template arguments by parameter name."""
        name, arguments = template_arguments(_followed(text, self.names))
        name = name.rpartition("::")[2]
        found = _BUILTIN.get(name) or self.source.structs.get(name) or _vector(name, self.names)
        if found is None or found.kind == "enum":
            return None, {}
        given = [_followed(argument, self.names) for argument in arguments]
        given += [param.default or "" for param in found.template[len(given) :]]
        return found, {param.name: value for param, value in zip(found.template, given, strict=False)}

    def layout(self, declaration: StructDecl, bound: Mapping[str, str], depth: int) -> StructLayout:
        """Place the members of a struct."""
        if declaration.problem is not None:
            raise LayoutError(declaration.problem)
        inside = replace(self, names={**self.names, **self.aliases(declaration), **bound})
        leaves: list[Leaf] = []
        end, align = 0, 1
        if declaration.base:
            base = self.base_of(declaration, depth)
            # Behind a plain struct its padding is kept; members may lie in that of another (Itanium C++ ABI, 2.4).
            leaves, end, align = list(base.leaves), base.size if base.leaves else 0, base.align
        for field in declaration.fields:
            placed = inside.member(field, depth)
            end = _round_up(end, placed.align)
            leaves += [replace(leaf, offset=end + leaf.offset) for leaf in placed.leaves]
            end, align = end + placed.size, max(align, placed.align)
            if len(leaves) > _MAX_FIELDS:
                raise LayoutError(f"it has more than {_MAX_FIELDS} fields")
        align = max([align, *(inside.number(text, "its alignment") for text in declaration.alignments)])
        # An empty class has the size one.
        return StructLayout(declaration.name, tuple(leaves), max(_round_up(end, align), align), align)

    def aliases(self, declaration: StructDecl) -> dict[str, str]:
        """Return the types that are members of a struct or of its bases."""
        found = dict(declaration.aliases)
        parent = self.source.structs.get(declaration.base.rpartition("::")[2]) if declaration.base else None
        return found if parent is None or parent is declaration else {**self.aliases(parent), **found}

    def base_of(self, declaration: StructDecl, depth: int) -> StructLayout:
        """Return the layout of the class from which a struct derives."""
        parent, bound = self.struct(declaration.base)
        if parent is None or depth == _MAX_DEPTH:
            raise LayoutError(f"it derives from `{declaration.base}`")
        if parent.base:
            raise LayoutError(f"`{declaration.base}`, from which it derives, is itself derived")
        found = self.layout(parent, bound, depth + 1)
        if found.align > 1 and not parent.plain and found.leaves:
            raise LayoutError(f"it derives from `{declaration.base}`, whose padding may hold members")
        return found

    def member(self, field: StructField, depth: int) -> StructLayout:
        """Return the layout of one member at offset zero, its leaves named after it."""
        one = self.value(field, depth)
        count = math.prod(sizes := [self.number(text, f"the size of `{field.name}`") for text in field.sizes])
        if count * max(len(one.leaves), 1) > _MAX_FIELDS:
            raise LayoutError(f"`{field.name}` has {count} elements; at most {_MAX_FIELDS} are supported")
        stride = _round_up(one.size, one.align)
        leaves = [
            replace(leaf, path=f"{field.name}{_index(at, sizes)}{leaf.path}", offset=at * stride + leaf.offset)
            for at in range(count)
            for leaf in one.leaves
        ]
        return StructLayout(field.name, tuple(leaves), count * stride, one.align)

    def value(self, field: StructField, depth: int) -> StructLayout:
        """Return the layout of one element of a member."""
        known = element_type(_followed(field.type, self.names), self.names)
        if field.pointer_depth:
            leaf = Leaf("", 0, field.type, known, field.pointer_depth, field.const)
            return StructLayout(field.name, (leaf,), _POINTER_BYTES, _POINTER_BYTES)
        name = _followed(field.type, self.names).rpartition("::")[2]
        enum = self.source.structs.get(name)
        if known is None and enum is not None and enum.kind == "enum":
            known = element_type(enum.fields[0].type, self.names)
        if known is not None:
            size = dtype_size(known.dtype)
            single = ElementType(known.dtype)
            if known.lanes == 1:
                return StructLayout(field.name, (Leaf("", 0, field.type, single),), size, size)
            lanes = tuple(Leaf(f".{_LANES[at]}", at * size, field.type, single) for at in range(known.lanes))
            return StructLayout(field.name, lanes, known.lanes * size, _alignment(known))
        declaration, bound = self.struct(field.type)
        if declaration is None or depth == _MAX_DEPTH:
            raise LayoutError(f"the type `{field.type}` of its field `{field.name}` is not defined in the file")
        try:
            inner = self.layout(declaration, bound, depth + 1)
        except LayoutError as error:
            raise LayoutError(f"its field `{field.name}` is a {declaration.name}: {error}") from error
        return replace(inner, leaves=tuple(replace(leaf, path=f".{leaf.path}") for leaf in inner.leaves))

    def number(self, text: str, what: str) -> int:
        """Return the value of a constant expression.

        Raises
        ------
        LayoutError
            If it is not one.
        """
        value = constant_of(text, self.names)
        if value is None or value < 1:
            raise LayoutError(f"{what}, `{text}`, is not known")
        return value


def _alignment(known: ElementType) -> int:
    """Return the alignment of a vector: of three the one of a component, and none above 16."""
    size = dtype_size(known.dtype)
    return size if known.lanes == 3 else min(16, known.lanes * size)


def _vector(text: str, names: Mapping[str, str]) -> StructDecl | None:
    """Return a vector type of CUDA as a struct; None for another type."""
    known = element_type(text, names)
    if known is None or known.lanes == 1 or known.dtype not in C_TYPE_OF:
        return None
    fields = tuple(StructField(_LANES[at], C_TYPE_OF[known.dtype]) for at in range(known.lanes))
    return StructDecl(text, "struct", fields, alignments=(str(_alignment(known)),))


def _followed(text: str, names: Mapping[str, str]) -> str:
    """Return a type with aliases replaced, at most ten deep, without qualifiers and ``struct``."""
    for _ in range(10):
        words = (word for word in text.split() if word not in ("const", "volatile", "struct", "class", "typename"))
        text = " ".join(words)
        if text not in names or names[text] == text:
            break
        text = names[text]
    return text


def _index(at: int, sizes: list[int]) -> str:
    """Return the indices of element number ``at`` of an array: ``[1][0]``."""
    parts = []
    for size in reversed(sizes):
        parts.append(f"[{at % size}]")
        at //= size
    return "".join(reversed(parts))


def _round_up(size: int, align: int) -> int:
    return -(-size // align) * align
