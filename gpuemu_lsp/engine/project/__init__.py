"""gpuemu.toml to a Project whose every value knows its place; never runs anything of the user's."""

from gpuemu_lsp.engine.project.load import discover, load

__all__ = ["discover", "load"]
