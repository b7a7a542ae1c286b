"""Sizes that keep the product readable: lines per file. Cycles are import-linter's."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

PRODUCT = Path(__file__).resolve().parents[2] / "gpuemu_lsp"
TESTS = Path(__file__).resolve().parents[1]
LINES_PER_FILE = 400


def test_no_file_has_more_than_one_reason_to_be_long():
    lengths = {str(path): len(path.read_text("utf-8").splitlines()) for path in PRODUCT.rglob("*.py")}
    assert not {path: length for path, length in lengths.items() if length > LINES_PER_FILE}


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
