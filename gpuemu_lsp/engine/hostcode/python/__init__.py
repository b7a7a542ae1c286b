"""Python as a front end of host code.

- :mod:`.lower` turns the syntax trees of one function, or of the statements of a module, into the representation.
- :mod:`.declarations` finds the functions and variables of a module that lead to launches of the kernels in a string of
  it, :mod:`.parameters` what their parameters are.
- :mod:`.modules` has the declarations of a module with kernels in Python: functions, classes, variables and imports.

Only :mod:`gpuemu_lsp.engine.source.python` and this package read the text of Python.
"""
