"""Files that a module reads or compiles, such as ``open("kernel.cu").read()``; their paths are made of constants."""

from __future__ import annotations

import re
from pathlib import Path

from tree_sitter import Node

from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.source.python.constants import UnknownText
from gpuemu_lsp.engine.source.python.mapped_text import MappedText
from gpuemu_lsp.engine.source.python.module_scope import ModuleScope
from gpuemu_lsp.engine.source.python.syntax import called_name, descendants, literal, text_of

_MAX_BYTES = 1 << 20
_MAX_DEPTH = 8
_CUDA = re.compile(r"\.(?:cu|cuh|h|hpp|cuda|inc)$")


def text_of_file(call: Node, scope: ModuleScope) -> MappedText:
    """Return the text that ``open(path).read()`` or ``Path(path).read_text()`` returns.

    Raises
    ------
    UnknownText
        If the path is not known, or not that of a readable text file next to the module.
    """
    path = path_of(call, scope)
    if path is None or not _CUDA.search(path.name):
        raise UnknownText(call)
    try:
        data = file_bytes(path, _MAX_BYTES)
        text = data.decode("utf-8")
    except (OSError, UnicodeDecodeError):
        raise UnknownText(call) from None
    return MappedText.verbatim(text, scope.files.add(path.as_posix(), data))


def path_of(node: Node, scope: ModuleScope) -> Path | None:
    """Return the file that an expression names relative to the module, None if it does not exist.

    The literals of the expression, joined, are the path: ``Path(__file__).parent / "csrc" / "kernel.cu"``.
    """
    parts = _literals(node, scope, 0)
    if not parts or not scope.path:
        return None
    joined = re.sub(r"/{2,}", "/", "/".join(parts))
    for folder in (Path(scope.path).parent, *Path(scope.path).parents[1:3]):
        for name in (joined, parts[-1]):
            path = folder / name.lstrip("/") if not Path(name).is_absolute() or len(parts) > 1 else Path(name)
            if path.is_file():
                return path.resolve()
    return None


def _literals(node: Node, scope: ModuleScope, depth: int) -> list[str]:
    found: list[str] = []
    if depth > _MAX_DEPTH:
        return found
    for one in descendants(node, "string", "identifier", "call"):
        if one.type == "call":
            if called_name(one) not in _PATH_CALLS:
                return []
        elif one.parent is not None and one.parent.type == "keyword_argument":
            continue  # encoding="utf-8"
        elif one.type == "string":
            value = literal(one)
            if isinstance(value, str):
                found += [value] if len(value) > 2 else []
            else:
                found += [text_of(child) for child in one.children if child.type == "string_content"]
        elif one.parent is None or one.parent.type != "attribute":
            for value, home in scope.lookup(one) or ():
                if value.type not in ("function_definition", "class_definition"):
                    found += _literals(value, home, depth + 1)
    return found


_PATH_CALLS = frozenset(
    {"open", "read", "read_text", "Path", "PurePath", "join", "dirname", "abspath", "realpath", "resolve", "str"}
    | {"joinpath", "absolute", "fspath", "with_name", "expanduser"}
)
