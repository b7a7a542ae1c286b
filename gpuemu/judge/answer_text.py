"""What the text of an answer says, where running it cannot: numbers of the task's sizes, products of tensor cores."""

from __future__ import annotations

import ast
import contextlib
import operator
import re
from collections.abc import Callable, Collection, Iterator, Set
from dataclasses import dataclass

from gpuemu.judge.task_text import needed_text

_NUMBER = re.compile(r"(?<![\w.])\d{2,9}(?![\w.])")
_PRODUCTS = re.compile(
    r"\btl\.dot(?:_scaled)?\(|\bwmma\b|\bmma[._](?:sync|m16)|\bwgmma\b|\bcublas|\btf32\b", re.IGNORECASE
)
_NARROW = {
    "half precision": re.compile(r"\bfloat16\b|\b__half2?\b|\bhalf2?\b|\.half\(|\bkHalf\b|\bfp16\b"),
    "bfloat16": re.compile(r"bfloat16|\bbf16\b|\bkBFloat16\b"),
}
_EXTENSIONS = re.compile(r"\b(?:cpp_extension|load_inline|load_library|ctypes)\b")
_TRITON = re.compile(r"^\s*(?:import|from)\s+triton\b", re.M)
_BLOCK_POINTERS = re.compile(r"\bmake_block_ptr\b")
COMMON_SIZE = 256
"""Blocks and tiles have such sizes: a number up to it may say nothing about the task."""
_COMMON_POWER = 4096
"""The same for powers of two."""


def named_sizes(text: str, model: str, sizes: Collection[int], extents: Collection[int] = ()) -> frozenset[int]:
    """Return which of the task's sizes are numbers in what the class ``model`` of a text uses.

    Answers repeat the task's own sizes and inputs, which their model does not use. A number may also be one of the
    ``extents`` of the task's tensors: the product of two sizes, or a number that follows from any of them.
    """
    with contextlib.suppress(SyntaxError):
        text = needed_text(text, (model,)).strip() or text
    numbers = frozenset(map(int, _NUMBER.findall(text)))
    named = numbers.intersection(sizes)
    for extent in sorted(numbers.intersection(extents).difference(sizes)):
        if extent > COMMON_SIZE and (extent.bit_count() > 1 or extent > _COMMON_POWER):
            factors = frozenset(size for size in sizes if extent % size == 0 and extent // size in sizes)
            named |= factors or frozenset(sizes)
    return named


def narrow_formats(text: str) -> tuple[str, ...]:
    """Return the formats narrower than fp32 that an answer names: ``half precision``, ``bfloat16``."""
    return tuple(name for name, pattern in _NARROW.items() if pattern.search(text))


def multiplies_in_tf32(text: str) -> bool:
    """Return whether an answer may multiply fp32 in TF32, as Triton's ``tl.dot`` does by default."""
    return _PRODUCTS.search(text) is not None


def uses_block_pointers(text: str) -> bool:
    """Return whether an answer uses block pointers, which Triton had before 3.9."""
    return _BLOCK_POINTERS.search(text) is not None


def has_only_triton(text: str) -> bool:
    """Return whether an answer's kernels are Triton's alone, which need no CUDA device of PyTorch."""
    return _TRITON.search(text) is not None and not has_extensions(text)


def has_extensions(text: str) -> bool:
    """Return whether an answer has extensions of PyTorch or libraries, which it may build when it is loaded."""
    return _EXTENSIONS.search(text) is not None


def fallbacks(text: str) -> tuple[int, ...]:
    """Return the 1-based lines of the first statement of ``except`` clauses that go on after an error, in order."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    return tuple(sorted(handler.body[0].lineno for handler in _handlers(tree) if not _ends_by_raising(handler)))


@dataclass(frozen=True, slots=True)
class UntakenBranch:
    """A condition in a 1-based line that never had a value where it was evaluated."""

    line: int
    condition: str
    value: bool
    test: ast.expr

    def distinguishes(self, checked: Set[int], own: Set[int]) -> bool:
        """Return whether a comparison with a number of the condition has another result for a size of the task's."""
        return any(
            any(compare(size) for size in own) and not any(compare(size) for size in checked)
            for compare in _comparisons(self.test, self.value)
        )


def untaken_branches(text: str, executed: Set[int]) -> tuple[UntakenBranch, ...]:
    """Return the conditions on sizes, addresses and values that were evaluated and had one value only."""
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return ()
    branches = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.If) or node.test.lineno not in executed or not _reads_a_tensor(node.test):
            continue
        taken = node.body[0].lineno in executed
        # Without `else` the other value leaves no line of its own: what follows runs in both cases.
        untaken = not taken or (bool(node.orelse) and node.orelse[0].lineno not in executed)
        if untaken and not isinstance(node.body[0], ast.Raise):
            branches.append(UntakenBranch(node.lineno, ast.unparse(node.test), not taken, node.test))
    return tuple(branches)


_OF_A_TENSOR = frozenset(
    {"shape", "size", "numel", "stride", "data_ptr", "ndim", "dim", "is_contiguous", "item", "len"}
)


def _reads_a_tensor(test: ast.expr) -> bool:
    names = {node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "") for node in ast.walk(test)}
    numbers = any(isinstance(node, ast.Constant) and type(node.value) is int for node in ast.walk(test))
    return bool(names & _OF_A_TENSOR) or (numbers and any(isinstance(node, ast.Compare) for node in ast.walk(test)))


def _comparisons(test: ast.expr, value: bool) -> Iterator[Callable[[int], bool]]:
    """Yield the comparisons of a condition with numbers, as functions of a size, for the value that it never had."""
    for node in ast.walk(test):
        if isinstance(node, ast.Compare) and len(node.ops) == 1 and type(node.ops[0]) in _ORDERS:
            left, right = node.left, node.comparators[0]
            order = _ORDERS[type(node.ops[0])]
            if isinstance(right, ast.Constant) and type(right.value) is int and right.value > 1:
                yield _comparison(order, right.value, value, bound_first=False)
            elif isinstance(left, ast.Constant) and type(left.value) is int and left.value > 1:
                yield _comparison(order, left.value, value, bound_first=True)


def _comparison(
    order: Callable[[int, int], bool], bound: int, value: bool, *, bound_first: bool
) -> Callable[[int], bool]:
    return lambda size: (order(bound, size) if bound_first else order(size, bound)) is value


_ORDERS: dict[type[ast.cmpop], Callable[[int, int], bool]] = {
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
}


def _handlers(tree: ast.AST) -> Iterator[ast.ExceptHandler]:
    return (node for node in ast.walk(tree) if isinstance(node, ast.ExceptHandler))


def _ends_by_raising(handler: ast.ExceptHandler) -> bool:
    return isinstance(handler.body[-1], ast.Raise)
