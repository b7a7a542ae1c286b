"""Expressions of Python functions that launch kernels, as host code in C++ with PyTorch's tensors.

Arrays of CuPy, PyCUDA and PyTorch become tensors: ``x.size`` is ``x.numel()``, ``cp.empty_like(x)`` is
``torch::empty_like(x)``. What the reader of host code could not understand becomes ``python_value(...)``, a function
that is not known, of the arrays in it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from gpuemu_lsp.engine.source.python.constants import UnknownText, constant
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.syntax import call_arguments, called_name, descendants, text_of

CASTS = frozenset({
    "int", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "intc", "uintc", "size_t", "intp",
    "float", "float16", "float32", "float64", "bool", "bool_",
    "c_int", "c_int32", "c_int64", "c_uint", "c_uint32", "c_size_t", "c_float", "c_double",
})  # fmt: skip
_LIBRARIES = frozenset({"cp", "cupy", "np", "numpy", "torch", "gpuarray", "xp", "pycuda"})
_SHAPES = ("shape", "size")
"""Names of the parameter for the shape of a new array."""
_OF_SHAPE = frozenset({"empty", "zeros", "ones", "full"})
_LIKE = frozenset({"empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like"})
_DRAWN = frozenset({"rand", "randn", "random", "random_sample", "standard_normal", "normal", "uniform", "randint"})
_SAME = frozenset({
    "contiguous", "cuda", "detach", "get", "cpu", "numpy", "asarray", "array", "ascontiguousarray", "asnumpy", "to_gpu",
    "from_numpy", "as_tensor", "In", "InOut", "to_device",
})  # fmt: skip
"""Functions and methods whose result has the elements of their array."""
_COPIES = frozenset({"copy", "clone", "astype", "to", "float", "half", "double", "type"})
_POINTERS = frozenset({"data", "ptr", "gpudata", "data_ptr"})
_CEIL_DIV = frozenset({"cdiv", "ceil_div", "ceildiv", "div_up", "divup"})
_OPERATORS = frozenset({"+", "-", "*", "/", "//", "%", "<<", ">>", "&", "|"})
_COMPARED = frozenset({"<", "<=", ">", ">=", "==", "!="})
_MAX_DEPTH = 24


class UnreadError(Exception):
    """The expression has no counterpart in host code."""


@dataclass(slots=True)
class Expressions:
    """Translation of the expressions of one function.

    ``names`` maps its variables to those in C++, ``arrays`` are the ones that hold arrays. ``functions`` are the
    functions of the module that are translated too, by name, with the names in C++ and their parameters.
    """

    scope: ModuleScope
    names: Mapping[str, str]
    arrays: set[str]
    functions: Mapping[str, tuple[str, Sequence[Node]]] = field(default_factory=dict)

    def value(self, node: Node | None) -> str:
        """Return an expression in C++; a value that is not known for one that has no counterpart."""
        if node is None:
            return "0"
        try:
            return self.read(node)
        except UnreadError:
            return self.unknown(node)

    def unknown(self, node: Node) -> str:
        """Return a value that is not known; the arrays in its expression may be changed.

        Functions of the module that it calls are called.
        """
        used = dict.fromkeys(text_of(one) for one in descendants(node, "identifier"))
        calls = (one for one in descendants(node, "call") if one != node and self._is_translated(one))
        parts = [self.names[name] for name in used if name in self.arrays] + [*map(self.value, calls)]
        return f"python_value({', '.join(parts)})"

    def _is_translated(self, call: Node) -> bool:
        function = call.child_by_field_name("function")
        owner = function.child_by_field_name("object") if function is not None else None
        return called_name(call) in self.functions and (owner is None or text_of(owner) == "self")

    def is_array(self, node: Node | None) -> bool:
        """Return whether an expression is an array, as far as its form says it."""
        if node is None:
            return False
        if node.type == "identifier":
            return text_of(node) in self.arrays
        try:
            written = self.read(node)
        except UnreadError:
            return False
        return written.startswith("torch::") or written in self._translated_arrays() or written.endswith(".clone()")

    def _translated_arrays(self) -> set[str]:
        return {self.names[name] for name in self.arrays}

    def read(self, node: Node, depth: int = 0) -> str:
        """Return an expression in C++.

        Raises
        ------
        UnreadError
            If it has no counterpart.
        """
        if depth > _MAX_DEPTH:
            raise UnreadError
        match node.type:
            case "identifier" | "attribute":
                return self._name(node) if node.type == "identifier" else self._attribute(node, depth)
            case "integer" | "float":
                return text_of(node).replace("_", "")
            case "true" | "false":
                return text_of(node).lower()
            case "none":
                return "nullptr"
            case "parenthesized_expression":
                return f"({self.read(node.named_children[0], depth + 1)})"
            case "tuple" | "list" | "expression_list":
                items = [one for one in node.named_children if one.type != "comment"]
                return f"{{{', '.join(self._part(one, depth) for one in items)}}}"
            case "binary_operator":
                return self._binary(node, depth)
            case "unary_operator":
                return self._unary(node, depth)
            case "comparison_operator":
                return self._comparison(node, depth)
            case "boolean_operator":
                sign = "&&" if text_of(node.child_by_field_name("operator")) == "and" else "||"
                return f"({self._side(node, 'left', depth)} {sign} {self._side(node, 'right', depth)})"
            case "not_operator":
                return f"!({self._side(node, 'argument', depth)})"
            case "conditional_expression":
                yes, condition, no = node.named_children[:3]
                return f"({self._part(condition, depth)} ? {self._part(yes, depth)} : {self._part(no, depth)})"
            case "subscript":
                return self._subscript(node, depth)
            case "call":
                return self._call(node, depth)
        raise UnreadError

    def _part(self, node: Node | None, depth: int) -> str:
        """Return a part of an expression, a value that is not known if it has no counterpart."""
        if node is None:
            raise UnreadError
        try:
            return self.read(node, depth + 1)
        except UnreadError:
            return self.unknown(node)

    def _side(self, node: Node, field_: str, depth: int) -> str:
        return self._part(node.child_by_field_name(field_), depth)

    def _name(self, node: Node) -> str:
        name = text_of(node)
        if name in self.names:
            return self.names[name]
        return self._constant(node)

    def _constant(self, node: Node) -> str:
        try:
            value = constant(node, self.scope)
        except UnknownText:
            raise UnreadError from None
        if isinstance(value, bool):
            return str(value).lower()
        if isinstance(value, int | float):
            return repr(value)
        if isinstance(value, tuple) and all(isinstance(one, int) for one in value):
            return f"{{{', '.join(map(repr, value))}}}"
        raise UnreadError

    def _attribute(self, node: Node, depth: int) -> str:
        owner, name = node.child_by_field_name("object"), text_of(node.child_by_field_name("attribute"))
        if owner is None:
            raise UnreadError
        if name in ("size", "shape", "ndim", "nbytes", "T") or name in _POINTERS:
            inner = self.read(owner, depth + 1)
            if name in _POINTERS:
                return inner
            if name in ("size", "shape", "ndim"):
                return f"{inner}.{({'size': 'numel', 'shape': 'sizes', 'ndim': 'dim'})[name]}()"
            raise UnreadError
        return self._constant(node)

    def _binary(self, node: Node, depth: int) -> str:
        sides = node.child_by_field_name("left"), node.child_by_field_name("right")
        sign = text_of(node.child_by_field_name("operator"))
        for array, other in (sides, sides[::-1]):
            if array is not None and array.type == "identifier" and text_of(array) in self.arrays:
                if other is not None and other.type in ("integer", "float"):
                    return f"torch::ones_like({self.read(array, depth + 1)})"
                raise UnreadError
        if sign not in _OPERATORS:
            return self._constant(node)
        left, right = (self.read(one, depth + 1) for one in sides if one is not None)
        if sign == "/":
            return f"((double)({left}) / ({right}))"
        return f"({left} {sign.replace('//', '/')} {right})"

    def _unary(self, node: Node, depth: int) -> str:
        """Return a negation; ``-(-a // b)``, which rounds up, as ``(a + b - 1) / b``: C++ rounds towards zero."""
        sign, inner = text_of(node.child_by_field_name("operator")), node.child_by_field_name("argument")
        while inner is not None and inner.type == "parenthesized_expression":
            inner = inner.named_children[0]
        left = inner.child_by_field_name("left") if inner is not None and inner.type == "binary_operator" else None
        if sign == "-" and inner is not None and left is not None and left.type == "unary_operator":
            if text_of(inner.child_by_field_name("operator")) != "//" or not text_of(left).startswith("-"):
                raise UnreadError
            above, below = left.child_by_field_name("argument"), inner.child_by_field_name("right")
            if above is None or below is None:
                raise UnreadError
            return self._rounded_up(self.read(above, depth + 1), self.read(below, depth + 1))
        if sign not in ("-", "+") or inner is None:
            raise UnreadError
        return f"({sign}{self.read(inner, depth + 1)})"

    @staticmethod
    def _rounded_up(above: str, below: str) -> str:
        return f"(({above} + {below} - 1) / {below})"

    def _comparison(self, node: Node, depth: int) -> str:
        signs = [text_of(one) for one in node.children if not one.is_named]
        if len(node.named_children) != len(signs) + 1 or not _COMPARED.issuperset(signs):
            raise UnreadError
        parts = [self._part(one, depth) for one in node.named_children]
        pairs = zip(parts, signs, parts[1:], strict=False)
        return " && ".join(f"({left} {sign} {right})" for left, sign, right in pairs)

    def _subscript(self, node: Node, depth: int) -> str:
        owner, keys = node.child_by_field_name("value"), node.children_by_field_name("subscript")
        if owner is None or len(keys) != 1 or keys[0].type == "slice":
            raise UnreadError
        name = text_of(owner.child_by_field_name("attribute")) if owner.type == "attribute" else ""
        index = self.read(keys[0], depth + 1)
        if name == "shape":
            array = owner.child_by_field_name("object")
            return f"{self._part(array, depth)}.size({index.strip('()')})"
        if owner.type == "identifier" and text_of(owner) not in self.arrays:
            return f"{self.read(owner, depth + 1)}[{index}]"
        raise UnreadError

    # ---- calls -------------------------------------------------------------------------------------------------------

    def _call(self, node: Node, depth: int) -> str:
        function, name = node.child_by_field_name("function"), called_name(node)
        positional, keywords = call_arguments(node)
        owner = function.child_by_field_name("object") if function is not None else None
        if self._is_translated(node):
            return self._translated(name, positional, keywords, depth)
        library = owner is None or text_of(owner).split(".")[0] in _LIBRARIES
        made = self._created(name, positional, keywords, text_of(owner), depth) if library else None
        if made is not None:
            return made
        if name in _SAME | _COPIES | _POINTERS | {"Out", "mem_alloc", "numel", "nelement", "size", "dim", "stride"}:
            return self._of_array(name, owner, positional, depth)
        parts = [self.read(one, depth + 1) for one in positional]
        if name in CASTS and len(parts) == 1:
            return f"int({parts[0]})" if name == "int" else parts[0]
        if name == "len" and len(parts) == 1:
            return f"{parts[0]}.size(0)"
        if name in ("ceil", "floor", "sqrt") and len(parts) == 1:
            return f"{name}({parts[0]})"
        if name in _CEIL_DIV and len(parts) == 2:
            return self._rounded_up(*parts)
        if name in ("min", "max") and len(parts) == 2:
            return f"{name}({', '.join(parts)})"
        raise UnreadError

    def _translated(self, name: str, positional: list[Node], keywords: Mapping[str, Node], depth: int) -> str:
        """Return the call of a function of the module, whose keywords have their positions."""
        written, parameters = self.functions[name]
        given: list[str] = [self._part(one, depth) for one in positional]
        for one in parameters[len(given) :]:
            parameter = text_of(one.child_by_field_name("name") or next(iter(one.named_children), one))
            default = one.child_by_field_name("value")
            if parameter in keywords:
                given.append(self._part(keywords[parameter], depth))
            elif default is not None:
                given.append(self._part(default, depth))
            else:
                break
        return f"{written}({', '.join(given)})"

    def _created(
        self, name: str, positional: list[Node], keywords: Mapping[str, Node], owner: str, depth: int
    ) -> str | None:
        """Return a new array; None if the function is no other one than those that make one."""
        if name in _LIKE and positional:
            return f"torch::{name.replace('randn', 'rand')}({self.read(positional[0], depth + 1)})"
        shape = next((keywords[one] for one in _SHAPES if one in keywords), positional[0] if positional else None)
        several = owner == "torch" or name in ("rand", "randn")
        if name == "arange" and len(positional) == 1:
            return f"torch::ones({{{self.read(positional[0], depth + 1)}}})"
        if name == "linspace" and len(positional) > 2:
            return f"torch::ones({{{self.read(positional[2], depth + 1)}}})"
        if name in ("randint", "normal", "uniform") and not any(one in keywords for one in _SHAPES):
            shape = positional[-1] if len(positional) > 1 and positional[-1].type in ("tuple", "list") else None
            several = False
        if shape is None or name not in _OF_SHAPE | _DRAWN or "." in owner.removesuffix(".random"):
            return None
        if several and len(positional) > 1 and name != "full":
            sizes = f"{{{', '.join(self.read(one, depth + 1) for one in positional)}}}"
        else:
            sizes = self.read(shape, depth + 1)
        return f"torch::{name if name in _OF_SHAPE else 'ones'}({sizes})"

    def _of_array(self, name: str, owner: Node | None, positional: list[Node], depth: int) -> str:
        """Return what a function or method says about an array, or makes of it."""
        is_method = owner is not None and text_of(owner) not in _LIBRARIES and self.is_array(owner)
        array = owner if is_method else positional[0] if positional else None
        if name in ("numel", "nelement", "size", "dim", "stride"):
            axes = [self.read(one, depth + 1).strip("()") for one in positional]
            return f"{self._part(owner, depth)}.{name.replace('nelement', 'numel')}({', '.join(axes)})"
        if array is None:
            raise UnreadError
        if name == "mem_alloc" and array.type == "attribute" and text_of(array).endswith(".nbytes"):
            return f"torch::empty_like({self._part(array.child_by_field_name('object'), depth)})"
        if not self.is_array(array):
            raise UnreadError
        written = self.read(array, depth + 1)
        if name == "Out":
            # PyCUDA allocates the memory, and copies it back.
            return f"torch::empty_like({written})"
        return f"{written}.clone()" if name in _COPIES else written
