"""The commands ``gpuemu-lsp`` and ``gpuemu``: argument parsing, calls of the engine, and output.

``verbs`` defines the arguments and is imported at every start; ``commands`` implements them and is imported when a
command runs.

``start`` has the entry points; ``main`` is ``gpuemu-lsp``, ``gpuemu`` the command with the verbs, ``with_parent`` the
same as a child of the language server. ``process_boundary`` turns interrupts, closed pipes and internal errors into
exit codes; ``arguments`` are those of both commands; ``output``, ``progress`` and ``report_context`` present a run;
``pages`` writes the generated pages of the documentation; ``daemon`` is a warm process for ``--check``; ``github``
writes comments. Nothing here decides what is right: a command asks the engine and prints.
"""
