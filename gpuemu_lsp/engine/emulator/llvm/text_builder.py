"""An IR builder that formats each instruction as text when it is built.

llvmlite's own builder keeps an object per instruction, deduplicates its name in a scope, and formats it when the module
is printed; that took half of the time between PTX and LLVM's parser. :class:`Builder` has the same interface and
replaces the frequent instructions; phis, branches, switches and allocas, which are completed later, stay llvmlite's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from llvmlite import ir

from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, Value


class InstructionText:
    """An instruction as text, with the type of its result and the name that refers to it."""

    __slots__ = ("_reference", "_text", "type")

    def __init__(self, type_: ir.Type, reference: str, text: str) -> None:
        self.type = type_
        self._reference = reference
        self._text = text

    def get_reference(self) -> str:
        """Return the name by which other instructions use the result."""
        return self._reference

    def __str__(self) -> str:
        return self._text


def constant_vector(element: ir.Type, values: Sequence[int]) -> InstructionText:
    """Return a vector of integers, formatted once; llvmlite keeps a constant per element."""
    text = ", ".join([f"{_text(element)} {value}" for value in values])
    return InstructionText(ir.VectorType(element, len(values)), f"<{text}>", "")


class _NumberedScope(ir._utils.NameScope):  # type: ignore[misc]
    """Names made unique by a running number, without llvmlite's search for clashes."""

    def __init__(self) -> None:
        super().__init__()
        self.count = 0

    def deduplicate(self, name: str) -> str:
        self.count += 1
        return f"{name}.{self.count}" if name else f"v{self.count}"


def use_numbered_names(function: ir.Function) -> None:
    """Number the values and blocks added to ``function`` from now on instead of checking their names for clashes."""
    function.scope = _NumberedScope()


def _text(type_: ir.Type) -> str:
    """Return a type as LLVM writes it."""
    # Cached on the type object: llvmlite formats a type again at every use, and there are few types.
    cached: str | None = type_.__dict__.get("cached_text")
    if cached is None:
        cached = type_.cached_text = str(type_)
    return cached


def _binary(opcode: str) -> Callable[..., Value]:
    def build(self: Builder, lhs: Value, rhs: Value, name: str = "", flags: Sequence[str] = ()) -> Value:
        words = f"{opcode} {' '.join(flags)}" if flags else opcode
        type_ = lhs.type
        return self.put(type_, f"{words} {_text(type_)} {lhs.get_reference()}, {rhs.get_reference()}")

    return build


def _cast(opcode: str) -> Callable[..., Value]:
    def build(self: Builder, value: Value, typ: ir.Type, name: str = "") -> Value:
        if value.type == typ:
            return value
        return self.put(typ, f"{opcode} {_text(value.type)} {value.get_reference()} to {_text(typ)}")

    return build


_SIGNED = {"<": "slt", "<=": "sle", ">": "sgt", ">=": "sge", "==": "eq", "!=": "ne"}
_UNSIGNED = {"<": "ult", "<=": "ule", ">": "ugt", ">=": "uge", "==": "eq", "!=": "ne"}
_ORDERED = {"<": "olt", "<=": "ole", ">": "ogt", ">=": "oge", "==": "oeq", "!=": "one", "ord": "ord", "uno": "uno"}
_UNORDERED = {"<": "ult", "<=": "ule", ">": "ugt", ">=": "uge", "==": "ueq", "!=": "une", "ord": "ord", "uno": "uno"}


def _comparison(opcode: str, conditions: dict[str, str]) -> Callable[..., Value]:
    def build(self: Builder, cmpop: str, lhs: Value, rhs: Value, name: str = "", flags: Sequence[str] = ()) -> Value:
        type_ = lhs.type
        result = ir.VectorType(I1, type_.count) if isinstance(type_, ir.VectorType) else I1
        text = f"{opcode} {conditions[cmpop]} {_text(type_)} {lhs.get_reference()}, {rhs.get_reference()}"
        return self.put(result, text)

    return build


class Builder(ir.IRBuilder):  # type: ignore[misc]
    """An ``IRBuilder`` whose frequent instructions are text; see the module."""

    def put(self, type_: ir.Type, text: str) -> InstructionText:
        """Insert an instruction with a result."""
        block = self._block
        scope = block.scope
        scope.count += 1
        reference = f'%"v{scope.count}"'
        line = InstructionText(type_, reference, f"{reference} = {text}")
        # The position llvmlite's own builder keeps: its instructions and these can be mixed in one block.
        block.instructions.insert(self._anchor, line)
        self._anchor += 1
        return line

    def run(self, text: str) -> InstructionText:
        """Insert an instruction without a result."""
        line = InstructionText(ir.VoidType(), "", text)
        self._block.instructions.insert(self._anchor, line)
        self._anchor += 1
        return line

    add, sub, mul = _binary("add"), _binary("sub"), _binary("mul")
    udiv, sdiv, urem, srem = _binary("udiv"), _binary("sdiv"), _binary("urem"), _binary("srem")
    and_, or_, xor = _binary("and"), _binary("or"), _binary("xor")
    shl, lshr, ashr = _binary("shl"), _binary("lshr"), _binary("ashr")
    fadd, fsub, fmul, fdiv, frem = (_binary(name) for name in ("fadd", "fsub", "fmul", "fdiv", "frem"))
    trunc, zext, sext, bitcast = _cast("trunc"), _cast("zext"), _cast("sext"), _cast("bitcast")
    fptrunc, fpext, inttoptr, ptrtoint = _cast("fptrunc"), _cast("fpext"), _cast("inttoptr"), _cast("ptrtoint")
    sitofp, uitofp, fptosi, fptoui = _cast("sitofp"), _cast("uitofp"), _cast("fptosi"), _cast("fptoui")
    icmp_signed, icmp_unsigned = _comparison("icmp", _SIGNED), _comparison("icmp", _UNSIGNED)
    fcmp_ordered, fcmp_unordered = _comparison("fcmp", _ORDERED), _comparison("fcmp", _UNORDERED)

    def not_(self, value: Value, name: str = "") -> Value:
        """Return the complement of all bits."""
        type_ = value.type
        ones = f"splat ({_text(type_.element)} -1)" if isinstance(type_, ir.VectorType) else "-1"
        return self.put(type_, f"xor {_text(type_)} {value.get_reference()}, {ones}")

    def select(self, cond: Value, lhs: Value, rhs: Value, name: str = "", flags: Sequence[str] = ()) -> Value:
        """Return ``lhs`` where ``cond`` holds, else ``rhs``."""
        type_ = _text(lhs.type)
        choice = f"{_text(cond.type)} {cond.get_reference()}"
        return self.put(lhs.type, f"select {choice}, {type_} {lhs.get_reference()}, {type_} {rhs.get_reference()}")

    def load(self, ptr: Value, name: str = "", align: int | None = None, typ: ir.Type | None = None) -> Value:
        """Load from memory."""
        type_ = ptr.type.pointee if typ is None else typ
        suffix = f", align {align}" if align is not None else ""
        return self.put(type_, f"load {_text(type_)}, ptr {ptr.get_reference()}{suffix}")

    def store(self, value: Value, ptr: Value, align: int | None = None) -> Value:
        """Store to memory."""
        suffix = f", align {align}" if align is not None else ""
        return self.run(f"store {_text(value.type)} {value.get_reference()}, ptr {ptr.get_reference()}{suffix}")

    def gep(
        self,
        ptr: Value,
        indices: Sequence[Value],
        inbounds: bool = False,
        name: str = "",
        source_etype: ir.Type | None = None,
    ) -> Value:
        """Return ``&ptr[indices]`` for elements of type ``source_etype``."""
        words = "getelementptr inbounds" if inbounds else "getelementptr"
        steps = ", ".join(f"{_text(index.type)} {index.get_reference()}" for index in indices)
        text = f"{words} {_text(source_etype)}, {_text(ptr.type)} {ptr.get_reference()}, {steps}"
        return self.put(ptr.type, text)

    def insert_element(self, vector: Value, value: Value, idx: Value, name: str = "") -> Value:
        """Return ``vector`` with one element replaced."""
        text = f"insertelement {_text(vector.type)} {vector.get_reference()}"
        text += f", {_text(value.type)} {value.get_reference()}, {_text(idx.type)} {idx.get_reference()}"
        return self.put(vector.type, text)

    def shuffle_vector(self, vector1: Value, vector2: Value, mask: Value, name: str = "") -> Value:
        """Return the elements of two concatenated vectors that ``mask`` selects."""
        type_ = _text(vector1.type)
        text = f"shufflevector {type_} {vector1.get_reference()}, {type_} {vector2.get_reference()}"
        result = ir.VectorType(vector1.type.element, mask.type.count)
        return self.put(result, f"{text}, {_text(mask.type)} {mask.get_reference()}")

    def call(self, fn: Value, args: Sequence[Value], *rest: Any, **options: Any) -> Value:
        """Call a function."""
        if rest or options:
            return super().call(fn, args, *rest, **options)
        type_ = fn.function_type.return_type
        given = ", ".join(f"{_text(one.type)} {one.get_reference()}" for one in args)
        text = f"call {_text(type_)} {fn.get_reference()}({given})"
        return self.run(text) if isinstance(type_, ir.VoidType) else self.put(type_, text)
