"""What the parameters of Python functions are, as their annotations and their use show it: arrays and numbers."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from gpuemu_lsp.engine.hostcode.python.lower import ARRAY, CASTS
from gpuemu_lsp.engine.source.python.syntax import (
    call_arguments,
    called_name,
    descendants,
    parameter_name,
    parameters_of,
    text_of,
)

_ARRAY_TYPES = re.compile(r"\b(?:Tensor|ndarray|GPUArray|DeviceAllocation|ArrayLike)\b")
_ARRAY_MEMBERS = frozenset({
    "shape", "size", "ndim", "dtype", "nbytes", "numel", "data_ptr", "device", "stride", "dim", "contiguous", "data",
    "gpudata", "astype", "flags", "is_cuda",
})  # fmt: skip
_OF_NUMBERS = frozenset({*CASTS, "range", "min", "max", "cdiv", "ceil_div"})
_OPERATIONS = ("binary_operator", "comparison_operator", "unary_operator", "call", "tuple")


@dataclass(slots=True)
class ParameterTypes:
    """Types of the parameters of a module's functions, by name; several functions may have one name.

    ``launched`` yields the arguments of the launches in a function, and whether each is a pointer in device code.
    """

    functions: dict[str, list[Node]]
    launched: Callable[[Node], Iterable[tuple[Node, bool]]]
    _arrays: dict[int, frozenset[str]] = field(default_factory=dict)

    def types(self, function: Node) -> dict[str, str]:
        """Return the types of parameters that are arrays or integers."""
        arrays = self.arrays(function)
        return {**dict.fromkeys(self._numbers(function), "int"), **dict.fromkeys(arrays, ARRAY)}

    def arrays(self, function: Node) -> frozenset[str]:
        """Return the parameters that are arrays."""
        if function.id not in self._arrays:
            self._arrays[function.id] = frozenset()  # of a function that calls itself
            used = frozenset(self._used_as_arrays(function))
            self._arrays[function.id] = frozenset(
                parameter_name(each)
                for each in parameters_of(function)
                if _ARRAY_TYPES.search(text_of(each.child_by_field_name("type"))) or parameter_name(each) in used
            )
        return self._arrays[function.id]

    def _used_as_arrays(self, function: Node) -> Iterator[str]:
        for node in descendants(function, "attribute", "call"):
            if node.type == "attribute":
                if text_of(node.child_by_field_name("attribute")) in _ARRAY_MEMBERS:
                    yield text_of(node.child_by_field_name("object"))
                continue
            given = call_arguments(node)[0]
            if called_name(node).endswith("_like"):
                yield from map(text_of, given)
            for called in self.functions.get(called_name(node), ()):
                pairs = zip(given, map(parameter_name, parameters_of(called)), strict=False)
                yield from (text_of(each) for each, name in pairs if name in self.arrays(called))
        yield from (text_of(each) for each, pointer in self.launched(function) if pointer)

    def _numbers(self, function: Node) -> set[str]:
        """Return the names that are used as numbers in a function, and never as objects."""
        numbers = {text_of(each) for each, pointer in self.launched(function) if not pointer}
        for node in descendants(function, *_OPERATIONS):
            parts: Sequence[Node] = node.named_children
            if node.type == "call":
                parts = call_arguments(node)[0] if called_name(node) in _OF_NUMBERS else ()
            if node.type != "tuple" or _is_argument(node):
                numbers |= {text_of(each) for each in parts if each.type == "identifier"}
        for node in descendants(function, "attribute", "subscript"):
            numbers.discard(text_of(node.child_by_field_name("object") or node.child_by_field_name("value")))
        return numbers


def _is_argument(node: Node) -> bool:
    """Return whether a tuple is the shape of a new array, or the grid or block of a launch."""
    parent = node.parent
    return parent is not None and parent.type in ("argument_list", "keyword_argument")
