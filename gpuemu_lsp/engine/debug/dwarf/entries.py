"""Scopes and variables of a module, read by pyelftools."""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from elftools.dwarf.dwarf_expr import DWARFExprParser
from elftools.dwarf.dwarfinfo import DebugSectionDescriptor, DwarfConfig, DWARFInfo
from elftools.dwarf.locationlists import LocationEntry, LocationExpr, LocationParser

from gpuemu_lsp.engine.debug.dwarf.model import Scope, SourceVariable, Storage, Type
from gpuemu_lsp.engine.debug.dwarf.sections import FIRST_SYMBOL, SYMBOL_STRIDE, DebugSections

if TYPE_CHECKING:
    from elftools.dwarf.compileunit import CompileUnit
    from elftools.dwarf.die import DIE

_READ: Final = {
    "debug_info_sec": ".debug_info",
    "debug_abbrev_sec": ".debug_abbrev",
    "debug_str_sec": ".debug_str",
    "debug_loc_sec": ".debug_loc",
    "debug_ranges_sec": ".debug_ranges",
}
_NOT_READ: Final = (
    "debug_aranges_sec", "debug_frame_sec", "eh_frame_sec", "debug_line_sec", "debug_pubtypes_sec",
    "debug_pubnames_sec", "debug_addr_sec", "debug_str_offsets_sec", "debug_line_str_sec", "debug_loclists_sec",
    "debug_rnglists_sec", "debug_sup_sec", "gnu_debugaltlink_sec", "debug_types_sec",
)  # fmt: skip

_ENCODINGS: Final = {1: "uint", 2: "bool", 4: "float", 5: "int", 6: "int", 7: "uint", 8: "uint"}
"""``DW_AT_encoding`` of base types (DWARF 2, figure 16)."""
_SPACES: Final = {4: "const", 5: "global", 6: "local", 7: "param", 8: "shared", 12: "generic"}
"""``DW_AT_address_class`` as NVIDIA's compilers write it."""
_QUALIFIERS: Final = ("DW_TAG_const_type", "DW_TAG_volatile_type", "DW_TAG_restrict_type", "DW_TAG_typedef")
_POINTERS: Final = ("DW_TAG_pointer_type", "DW_TAG_reference_type", "DW_TAG_rvalue_reference_type")
_RECORDS: Final = ("DW_TAG_structure_type", "DW_TAG_class_type", "DW_TAG_union_type")


def scopes_of(sections: DebugSections) -> tuple[Scope, ...]:
    """Return the functions of a module with their variables; none if it has no debug information.

    Raises
    ------
    elftools.common.exceptions.ELFError
        If the sections are not DWARF.
    """
    if ".debug_info" not in sections.contents or ".debug_abbrev" not in sections.contents:
        return ()
    given: dict[str, DebugSectionDescriptor | None] = dict.fromkeys(_NOT_READ)
    given |= {argument: _descriptor(sections, name) for argument, name in _READ.items()}
    information = DWARFInfo(DwarfConfig(little_endian=True, machine_arch="CUDA", default_address_size=8), **given)
    found: list[Scope] = []
    for unit in information.iter_CUs():
        found += _Reader(information, unit, sections).functions(unit.get_top_DIE())
    return tuple(found)


def _descriptor(sections: DebugSections, name: str) -> DebugSectionDescriptor | None:
    data = sections.contents.get(name)
    return None if data is None else DebugSectionDescriptor(io.BytesIO(data), name, 0, len(data), 0)


class _Reader:
    """Reads the entries of one compilation unit."""

    def __init__(self, information: DWARFInfo, unit: CompileUnit, sections: DebugSections) -> None:
        self._symbols = sections.symbols
        self._version = unit["version"]
        self._expressions = DWARFExprParser(unit.structs)
        lists = information.location_lists() if sections.contents.get(".debug_loc") else None
        self._locations = LocationParser(lists)
        self._types: dict[int, Type] = {}

    # ---- scopes ------------------------------------------------------------------------------------------------------

    def functions(self, entry: DIE) -> Iterator[Scope]:
        """Yield the functions in an entry, member functions included."""
        for child in entry.iter_children():
            if child.tag == "DW_TAG_subprogram" and _extent(child) is not None:
                yield self._scope(child)
            elif child.tag in ("DW_TAG_namespace", *_RECORDS):
                yield from self.functions(child)

    def _scope(self, entry: DIE) -> Scope:
        low, high = _extent(entry) or (0, 0)
        variables: list[SourceVariable] = []
        inner: list[Scope] = []
        for child in entry.iter_children():
            if child.tag in ("DW_TAG_variable", "DW_TAG_formal_parameter"):
                variables += self._variable(child, low, high)
            elif child.tag in ("DW_TAG_inlined_subroutine", "DW_TAG_lexical_block"):
                if _extent(child) is not None:
                    inner.append(self._scope(child))
                else:
                    # A block without a range of its own: its variables are those of the scope around it.
                    block = self._scope(child)
                    variables += block.variables
                    inner += block.inner
        named = entry.tag != "DW_TAG_lexical_block"
        return Scope(
            function=_name(_origin(entry)) if named else "",
            low=low,
            high=high,
            variables=tuple(variables),
            inner=tuple(inner),
            call_file=_number(entry, "DW_AT_call_file"),
            call_line=_number(entry, "DW_AT_call_line"),
        )

    def _variable(self, entry: DIE, low: int, high: int) -> Iterator[SourceVariable]:
        attribute = entry.attributes.get("DW_AT_location")
        origin = _origin(entry)
        if attribute is None or not _name(origin):
            return
        space = _number(entry, "DW_AT_address_class") or _number(origin, "DW_AT_address_class")
        location = self._locations.parse_from_attribute(attribute, self._version, entry)
        if isinstance(location, LocationExpr):
            places = [(low, high, location.loc_expr)]
        else:
            places = [
                (one.begin_offset, one.end_offset, one.loc_expr)
                for one in location or ()
                if isinstance(one, LocationEntry)
            ]
        storages = [(first, end, self._storage(expression, space)) for first, end, expression in places]
        yield SourceVariable(
            _name(origin),
            self._type_of(origin),
            tuple((first, end, storage) for first, end, storage in storages if storage is not None),
            entry.tag == "DW_TAG_formal_parameter",
        )

    def _storage(self, expression: Any, space: int) -> Storage | None:
        address = 0
        for operation in self._expressions.parse_expr(expression):
            name, arguments = operation.op_name, operation.args
            if name == "DW_OP_regx":
                return Storage("register", _register_name(arguments[0]))
            # The only operator is the sum of an address and its offset.
            if name in ("DW_OP_addr", "DW_OP_plus_uconst", "DW_OP_constu", "DW_OP_consts"):
                address += arguments[0]
            elif name.startswith("DW_OP_lit"):
                address += int(name.removeprefix("DW_OP_lit"))
        if address < FIRST_SYMBOL:
            return None
        offset = address % SYMBOL_STRIDE
        symbol = self._symbols.get(address - offset)
        return None if symbol is None else Storage(_SPACES.get(space, "generic"), symbol, offset)

    # ---- types -------------------------------------------------------------------------------------------------------

    def _type_of(self, entry: DIE) -> Type:
        if "DW_AT_type" not in entry.attributes:
            return Type("other", "void", 0)
        target = entry.get_DIE_from_attribute("DW_AT_type")
        if target.offset not in self._types:
            # A class may point to itself.
            self._types[target.offset] = Type("other", _name(target), _number(target, "DW_AT_byte_size"))
            self._types[target.offset] = self._type(target)
        return self._types[target.offset]

    def _type(self, entry: DIE) -> Type:
        tag, name, size = entry.tag, _name(entry), _number(entry, "DW_AT_byte_size")
        if tag == "DW_TAG_base_type":
            return Type("base", name, size, _ENCODINGS.get(_number(entry, "DW_AT_encoding"), "uint"))
        if tag in _POINTERS:
            target = self._type_of(entry)
            return Type("pointer", f"{target.name}*", size or 8, target=target)
        if tag in _QUALIFIERS:
            return self._type_of(entry)
        if tag == "DW_TAG_array_type":
            element = self._type_of(entry)
            counts = tuple(_extent_of(one) for one in entry.iter_children() if one.tag == "DW_TAG_subrange_type")
            total = element.size
            for count in counts:
                total *= count
            return Type(
                "array",
                element.name + "".join(f"[{count}]" for count in counts),
                size or total,
                target=element,
                counts=counts,
            )
        if tag in _RECORDS:
            members = tuple(
                (_name(one), _member_offset(one), _bit_field(one, self._type_of(one)))
                for one in entry.iter_children()
                if one.tag in ("DW_TAG_member", "DW_TAG_inheritance") and "DW_AT_type" in one.attributes
            )
            return Type("struct", name, size, members=members)
        if tag == "DW_TAG_enumeration_type":
            values = tuple(
                (_name(one), _number(one, "DW_AT_const_value"))
                for one in entry.iter_children()
                if one.tag == "DW_TAG_enumerator"
            )
            return Type("enum", name, size, "int", enumerators=values)
        return Type("other", name or str(tag), size)


def _extent(entry: DIE) -> tuple[int, int] | None:
    """Return the lines of an entry, None if it has none: a declaration, or a function that was cut out."""
    low, high = entry.attributes.get("DW_AT_low_pc"), entry.attributes.get("DW_AT_high_pc")
    if low is None or high is None:
        return None
    end = high.value if high.form == "DW_FORM_addr" else low.value + high.value
    return (low.value, end) if end > low.value else None


def _origin(entry: DIE) -> DIE:
    """Return the entry that names a function or variable: of an inlined one, the abstract entry."""
    while True:
        if "DW_AT_abstract_origin" in entry.attributes:
            entry = entry.get_DIE_from_attribute("DW_AT_abstract_origin")
        elif "DW_AT_specification" in entry.attributes and "DW_AT_name" not in entry.attributes:
            entry = entry.get_DIE_from_attribute("DW_AT_specification")
        else:
            return entry


def _register_name(number: int) -> str:
    """Return the register with a number: NVIDIA's compilers write the characters of its name as one number."""
    return number.to_bytes((number.bit_length() + 7) // 8, "big").decode("latin-1")


def _number(entry: DIE, name: str) -> int:
    attribute = entry.attributes.get(name)
    return attribute.value if attribute is not None and isinstance(attribute.value, int) else 0


def _name(entry: DIE) -> str:
    attribute = entry.attributes.get("DW_AT_name")
    return attribute.value.decode("utf-8", "replace") if attribute is not None else ""


def _extent_of(entry: DIE) -> int:
    """Return the elements of an array's dimension."""
    if "DW_AT_upper_bound" in entry.attributes:
        return _number(entry, "DW_AT_upper_bound") + 1
    return _number(entry, "DW_AT_count")


def _bit_field(entry: DIE, type_: Type) -> Type:
    """Return the type of a member, with its bits if it is a bit-field, whose first bit is counted from the highest."""
    count = _number(entry, "DW_AT_bit_size")
    if not count:
        return type_
    return replace(type_, bits=(8 * type_.size - _number(entry, "DW_AT_bit_offset") - count, count))


def _member_offset(entry: DIE) -> int:
    """Return the offset of a member: a number, or the expression ``DW_OP_plus_uconst`` with one."""
    attribute = entry.attributes.get("DW_AT_data_member_location")
    if attribute is None:
        return 0
    if isinstance(attribute.value, int):
        return attribute.value
    offset, shift = 0, 0
    for byte in attribute.value[1:]:
        offset |= (byte & 127) << shift
        shift += 7
    return offset
