"""The commands ``gpuemu-lsp`` and ``gpuemu``: argument parsing, calls of the engine, and output.

``verbs`` defines the arguments and is imported at every start; ``commands`` implements them and is imported when a
command runs.
"""
