"""Implementations of the commands. Imported by `gpuemu_lsp.cli.verbs` only when the command runs."""
