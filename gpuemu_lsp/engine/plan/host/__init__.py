"""Plans of a kernel as the host code of its program launches it.

:mod:`gpuemu_lsp.engine.hostcode` interprets the program. Here its launches become plans:

- :mod:`.chosen_launches` chooses the launches of a kernel. Where the constants of a program are too large to emulate,
  those that device code does not use become symbols, and smaller sizes take their place.
- :mod:`.constraints` has the sizes with which the program can reach a launch, as dims; :mod:`.lookup` what a comparison
  says about one size.
- :mod:`.passed_types` compares the types of what a Python module passes with those of the parameters.
- :mod:`.rejected_launches` finds launches with more threads in a block than the kernel may have.
- :mod:`.preference` orders the launches, and :mod:`.plans` makes the plan of a kernel from one launch, with the
  arguments of :mod:`.parameters`.
"""
