"""Signatures that a reader cannot use without looking at the code: integers without a unit, arrays without a shape."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("gpuemu_lsp", "gpuemu", "cuda_kernel_verifier")

WITHOUT_UNIT = 0
WITHOUT_SHAPE = 0
"""Parameters and fields whose docstring is silent. The figures only go down."""

AMBIGUOUS = re.compile(r"(?:.*_)?(?:size|offset|limit)")
UNIT = re.compile(
    r"\b(bytes?|bits?|elements?|words?|seconds?|ms|lanes?|threads?|warps?|blocks?|cells?|pages?|characters?|lines?|columns?"
    r"|instructions?|entries|cases|processes|launches|registers|units?|dims?|dimensions?)\b"
)
ARRAY = re.compile(r"\b(Array|NDArray|ndarray)\b")
CONTAINER = re.compile(r"Callable|Mapping|dict|Sequence|list|Iterable|tuple|ctypes")
SHAPE = re.compile(
    r"\b(shapes?|scalar|one-dimensional|two-dimensional|[012]-D|flat|dimensions?|axis|axes|rows?|lanes|elements?|per byte)\b"
)


@dataclass(frozen=True)
class Item:
    """A parameter of a public function, or a field of a public class, with the docstrings that may describe it."""

    place: str
    name: str
    annotation: str
    text: str


def items(body: list[ast.stmt], path: str, owner: ast.ClassDef | None = None) -> Iterator[Item]:
    for number, node in enumerate(body):
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield from items(node.body, path, node)
        elif isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            if node.name.startswith("_") and node.name != "__init__":
                continue
            text = ast.get_docstring(node) or ""
            if node.name == "__init__" and owner is not None:
                text += ast.get_docstring(owner) or ""
            for argument in (*node.args.posonlyargs, *node.args.args, *node.args.kwonlyargs):
                if argument.annotation is not None:
                    yield Item(f"{path}:{node.lineno}", argument.arg, ast.unparse(argument.annotation), text)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and owner is not None:
            after = body[number + 1] if number + 1 < len(body) else None
            described = isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant)
            text = (ast.get_docstring(owner) or "") + (str(after.value.value) if described else "")
            yield Item(f"{path}:{node.lineno}", node.target.id, ast.unparse(node.annotation), text)


def product_items() -> Iterator[Item]:
    for package in PACKAGES:
        for path in sorted((ROOT / package).rglob("*.py")):
            yield from items(ast.parse(path.read_text("utf-8")).body, str(path.relative_to(ROOT)))


def test_ambiguous_integers_have_a_unit():
    integers = [item for item in product_items() if item.annotation in ("int", "int | None")]
    ambiguous = [item for item in integers if AMBIGUOUS.fullmatch(item.name)]
    assert len(ambiguous) > 50
    silent = [item for item in ambiguous if not UNIT.search(item.name.replace("_", " ") + " " + item.text)]
    assert len(silent) <= WITHOUT_UNIT, "\n".join(f"{item.place} {item.name}" for item in silent)


def test_arrays_have_a_shape():
    arrays = [
        item for item in product_items() if ARRAY.search(item.annotation) and not CONTAINER.search(item.annotation)
    ]
    assert len(arrays) > 50
    silent = [item for item in arrays if not SHAPE.search(item.text)]
    assert len(silent) <= WITHOUT_SHAPE, "\n".join(f"{item.place} {item.name}" for item in silent)


def test_a_silent_signature_is_counted():
    source = '"""d"""\ndef read(size: int, data: Array) -> None:\n    """Read."""\n'
    (size, data) = items(ast.parse(source).body, "module.py")
    assert AMBIGUOUS.fullmatch(size.name) and not UNIT.search(size.text)
    assert ARRAY.search(data.annotation) and not SHAPE.search(data.text)
    assert UNIT.search("Read ``size`` bytes.") and SHAPE.search("Read an array of any shape.")
