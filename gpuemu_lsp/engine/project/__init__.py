"""gpuemu.toml to a Project whose every value knows its place; never runs anything of the user's."""
