"""Maps of the code that are complete: the modules that a package's docstring lists."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGES = ("gpuemu_lsp", "gpuemu", "cuda_kernel_verifier")


def packages() -> list[Path]:
    return sorted(path.parent for package in PACKAGES for path in (ROOT / package).rglob("__init__.py"))


def modules(package: Path) -> set[str]:
    files = {path.stem for path in package.glob("*.py")} - {"__init__", "__main__"}
    return files | {path.name for path in package.iterdir() if (path / "__init__.py").is_file()}


def marked_words(docstring: str) -> set[str]:
    """Words in literals and references: ``map`` and :mod:`.map`."""
    marked = re.findall(r"``([^`]+)``|:\w+:`~?\.?([^`]+)`", docstring)
    return {word for pair in marked for text in pair for word in re.findall(r"\w+", text)}


def unlisted(package: Path) -> set[str]:
    """Return the modules that a docstring lacks which names at least two of them."""
    docstring = ast.get_docstring(ast.parse((package / "__init__.py").read_text("utf-8"))) or ""
    listed = modules(package) & marked_words(docstring)
    return modules(package) - listed if len(listed) > 1 else set()


def test_a_package_that_lists_its_modules_lists_all():
    incomplete = {str(package.relative_to(ROOT)): unlisted(package) for package in packages()}
    assert {name: missing for name, missing in incomplete.items() if missing} == {}


def test_lists_are_read_in_every_spelling():
    assert marked_words("``map`` and :mod:`.sites`, :func:`view.made`, ``a``, ``b c``") == {
        *("map", "sites", "view", "made", "a", "b", "c")
    }
    assert len(packages()) > 60


ARCHITECTURE = (ROOT / "docs/architecture.md").read_text("utf-8")


def folder_names() -> set[str]:
    """Folders that the page names: code spans that end with a slash."""
    return set(re.findall(r"`([\w/]+)/`", ARCHITECTURE))


def is_named(package: Path) -> bool:
    path = str(package.relative_to(ROOT))
    return any(f"/{path}".endswith(f"/{name}") for name in folder_names())


def test_the_architecture_names_every_package():
    internal = {"gpuemu_lsp", "gpuemu_lsp/engine"}
    assert [
        str(p.relative_to(ROOT)) for p in packages() if not is_named(p) and str(p.relative_to(ROOT)) not in internal
    ] == []


def test_the_architecture_names_no_folder_or_file_that_is_gone():
    folders = {str(path.relative_to(ROOT)) for path in packages()} | {
        path.name for path in ROOT.iterdir() if path.is_dir()
    }
    gone = {name for name in folder_names() if not any(f"/{folder}".endswith(f"/{name}") for folder in folders)}
    files = {str(path.relative_to(ROOT)) for package in PACKAGES for path in (ROOT / package).rglob("*.py")}
    named = set(re.findall(r"`([\w/]+\.py)`", ARCHITECTURE))
    gone |= {name for name in named if not any(f"/{file}".endswith(f"/{name}") for file in files)}
    assert gone == set()
