"""C++ and CUDA as a front end of host code.

- :mod:`.syntax` parses with tree-sitter, :mod:`.lower` turns the syntax trees of one item into the representation.
- :mod:`.declarations` finds the functions, classes and variables of some files; what they do is lowered on demand.
- :mod:`.loop_macros` has the macros that are heads of loops.
- :mod:`.launch_macros` expands macros around launches before the text is parsed.
- :mod:`.translation_units` has the files of a program, and those that call functions of another one.
- :mod:`.launch_sites` says where launches are written, :mod:`.constants` evaluates constant expressions.

Only this package and the preprocessor of :mod:`gpuemu_lsp.engine.source` read the text of C++.
"""
