"""Configuration: gpuemu.toml as a Project, with the source position of every value. Runs no user code."""

from gpuemu_lsp.engine.findings import Position
from gpuemu_lsp.engine.project.load import discover, load
from gpuemu_lsp.engine.project.schema import document, json_schema
from gpuemu_lsp.engine.project.tree import Spot, read_tree

__all__ = ["discover", "document", "json_schema", "load", "place_of"]


def place_of(text: str, line: int, column: int) -> Spot | None:
    """Return the key, value or table at a 0-based line and UTF-8 byte column; the text may be incomplete."""
    return read_tree(text).at(Position(line, column))
