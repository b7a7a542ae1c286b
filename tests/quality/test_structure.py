"""Sizes that keep the product readable: lines of files, branches of functions, fields of records.

Cycles and layers are import-linter's. Folders have no limit: one with more than 20 modules is a question for the
review, which the summary of these tests asks.
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PRODUCT = ROOT / "gpuemu_lsp"
TESTS = Path(__file__).resolve().parents[1]

LINES_PER_FILE = 400
LINES_PER_CLASS_OR_INTERPRETER = 600
"""Lines of a file of which one class has the largest part by far, or whose docstring opens with "Interpreter"."""
SHARE_OF_THE_CLASS = 0.8
BRANCHES_PER_FUNCTION = 25
FIELDS_PER_RECORD = 18

LONG_FILES = {
    "gpuemu_lsp/engine/hostcode/ir.py": "the kinds of nodes of one representation",
    "gpuemu_lsp/engine/hostcode/python/lower.py": "one translation, by the kind of the node",
    "gpuemu_lsp/engine/symbolic/size.py": "the rules of one normal form, each of which may apply the others",
}
"""Files of another kind that may be long, with the reason."""

# What exceeds a limit today. These lists may only shrink: a change that fixes an entry removes it.
BRANCHED_FUNCTIONS = frozenset(
    {
        "gpuemu_lsp/cli/commands/lint.py:lint",
        "gpuemu_lsp/engine/build/constant_values.py:ConstantScope._call",
        "gpuemu_lsp/engine/build/constant_values.py:ConstantScope._value",
        "gpuemu_lsp/engine/emulator/analysis/shape_propagation.py:ShapePropagation._evaluate",
        "gpuemu_lsp/engine/emulator/matrix/warpgroup.py:group_product",
        "gpuemu_lsp/engine/plan/host/parameters/pointers.py:tensor",
        "gpuemu_lsp/engine/plan/host/plans.py:_built",
        "gpuemu_lsp/engine/plan/wrappers/kernel_accesses.py:_Body._call",
        "gpuemu_lsp/engine/plan/wrappers/launch_entry.py:LaunchEntry._result",
        "gpuemu_lsp/engine/project/entries.py:_op",
        "gpuemu_lsp/engine/source/python/strings.py:_call",
        "gpuemu_lsp/engine/source/syntax/structs.py:_types",
        "gpuemu_lsp/server/features/code_action.py:_actions",
    }
)
LARGE_RECORDS = frozenset(
    {
        "gpuemu_lsp/engine/check/model.py:KernelReport",
        "gpuemu_lsp/engine/emulator/launch/state.py:PreparedLaunch",
        "gpuemu_lsp/engine/execution.py:Request",
        "gpuemu_lsp/engine/project/model.py:KernelSpec",
        "gpuemu_lsp/engine/subjects/triton/kernel.py:TritonKernelSubject",
        "gpuemu_lsp/engine/workers/processes.py:WorkerProcess",
    }
)


def product_files() -> list[Path]:
    packages = ("gpuemu_lsp", "gpuemu", "cuda_kernel_verifier")
    return sorted(path for package in packages for path in (ROOT / package).rglob("*.py"))


@cache
def tree_of(path: Path) -> ast.Module:
    return ast.parse(path.read_text("utf-8"))


def definitions(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield the functions and classes in a node with their names, those of inner ones behind that of the outer."""
    for child in ast.iter_child_nodes(node):
        inner = prefix
        if isinstance(child, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            inner = f"{prefix}{child.name}"
            yield inner, child
            inner += "."
        yield from definitions(child, inner)


def all_definitions() -> Iterator[tuple[str, ast.AST]]:
    for path in product_files():
        yield from definitions(tree_of(path), f"{path.relative_to(ROOT).as_posix()}:")


def branches(function: ast.AST) -> int:
    """Return the branches of a function, without those of functions in it.

    Each `if`, conditional expression, loop, `case`, `except`, part of a comprehension, and expression with `and` or
    `or` is one.
    """
    total, nodes = 0, [*ast.iter_child_nodes(function)]
    counted = (ast.If, ast.IfExp, ast.For, ast.AsyncFor, ast.While, ast.match_case, ast.ExceptHandler)
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            continue
        total += isinstance(node, (*counted, ast.comprehension, ast.BoolOp))
        nodes += ast.iter_child_nodes(node)
    return total


def fields(record: ast.ClassDef) -> int:
    """Return the fields of a dataclass or named tuple, 0 for another class."""
    marks = [ast.unparse(node) for node in (*record.decorator_list, *record.bases)]
    if not any("dataclass" in mark or "NamedTuple" in mark for mark in marks):
        return 0
    return sum(isinstance(node, ast.AnnAssign) and "ClassVar" not in ast.unparse(node) for node in record.body)


def most_lines(path: Path, lines: int) -> int:
    """Return the number of lines that a file may have."""
    tree = tree_of(path)
    largest = max(
        ((node.end_lineno or 0) - node.lineno for node in tree.body if isinstance(node, ast.ClassDef)), default=0
    )
    interpreter = re.match(r"(An |The )?interpreter\b", ast.get_docstring(tree) or "", re.I)
    whole = largest > SHARE_OF_THE_CLASS * lines or interpreter or path.relative_to(ROOT).as_posix() in LONG_FILES
    return LINES_PER_CLASS_OR_INTERPRETER if whole else LINES_PER_FILE


def test_a_long_file_is_one_class_or_one_interpreter():
    lengths = {path: len(path.read_text("utf-8").splitlines()) for path in product_files()}
    long = {path: lines for path, lines in lengths.items() if lines > LINES_PER_FILE}
    assert not {str(path): lines for path, lines in long.items() if lines > most_lines(path, lines)}
    assert {path for path in LONG_FILES if lengths.get(ROOT / path, 0) <= LINES_PER_FILE} == set()


def test_no_function_has_more_branches_than_a_reader_can_follow():
    counts = {
        name: branches(node)
        for name, node in all_definitions()
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    above = {name: count for name, count in counts.items() if count > BRANCHES_PER_FUNCTION}
    assert {name: count for name, count in above.items() if name not in BRANCHED_FUNCTIONS} == {}
    assert BRANCHED_FUNCTIONS - above.keys() == set(), "no longer above the limit: remove them from BRANCHED_FUNCTIONS"


def test_no_record_has_more_fields_than_a_reader_can_hold():
    counts = {name: fields(node) for name, node in all_definitions() if isinstance(node, ast.ClassDef)}
    above = {name: count for name, count in counts.items() if count > FIELDS_PER_RECORD}
    assert {name: count for name, count in above.items() if name not in LARGE_RECORDS} == {}
    assert LARGE_RECORDS - above.keys() == set(), "no longer above the limit: remove them from LARGE_RECORDS"


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("if a:\n  pass\nelif b:\n  pass\nelse:\n  pass", 2),
        ("x = a and b and c", 1),
        ("x = [i for i in a if i]", 1),
        ("x = a if b else c", 1),
        ("match a:\n  case 1:\n    pass\n  case _:\n    pass", 2),
        ("try:\n  pass\nexcept OSError:\n  pass", 1),
        ("def inner():\n  if a: pass", 0),
    ],
)
def test_branches_are_counted_as_the_limit_says(text, count):
    assert branches(ast.parse(text)) == count


def test_every_package_says_what_it_holds():
    packages = [path for path in PRODUCT.rglob("__init__.py") if len(path.read_text("utf-8").split('"""')) < 2]
    assert not packages


def test_the_engine_imports_nothing_of_the_package_of_users():
    # Import-linter reads import statements only; a name in a string is an import as well.
    imports = re.compile(
        r"(?:import_module|__import__|find_spec)\(\s*f?['\"]gpuemu\b(?!_)|^\s*(?:from|import) gpuemu\b(?!_)", re.M
    )
    engine = PRODUCT / "engine"
    assert not [str(path) for path in engine.rglob("*.py") if imports.search(path.read_text("utf-8"))]


def test_a_public_class_name_has_one_meaning():
    defined: dict[str, list[str]] = {}
    for path in PRODUCT.rglob("*.py"):
        for node in ast.parse(path.read_text("utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                defined.setdefault(node.name, []).append(str(path.relative_to(PRODUCT)))
    assert not {name: paths for name, paths in defined.items() if len(paths) > 1}


def test_no_two_test_modules_that_run_together_share_a_name():
    # pytest imports modules of folders that are not packages by their name alone. Some folders run on their own.
    alone = {"triton", "numba", "frameworks", "editors"}
    together = [path for path in TESTS.rglob("test_*.py") if path.relative_to(TESTS).parts[0] not in alone]
    counts = Counter(path.name for path in together)
    assert not {name: count for name, count in counts.items() if count > 1}


def test_states_of_an_interpretation_are_immutable_and_not_restored():
    packages = ("hostcode", "symbolic", "plan")
    calls = re.compile(r"\b(?:snapshot|restore)\(")
    files = (path for package in packages for path in (PRODUCT / "engine" / package).rglob("*.py"))
    assert {str(path) for path in files if calls.search(path.read_text("utf-8"))} == set()
