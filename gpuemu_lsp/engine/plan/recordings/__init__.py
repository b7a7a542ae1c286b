"""Plans of unregistered kernels that a recorded run has launched.

:mod:`.kernels` finds the recorded launches of a kernel, :mod:`.arguments` reads their parameter blocks by the
signature, :mod:`.relations` solves how their sizes depend on each other, and :mod:`.plans` makes a plan of them.
:mod:`.ranges` are those of the integers that recorded launches read.
"""
