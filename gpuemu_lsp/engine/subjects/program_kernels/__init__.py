"""Kernels in Python that only their program launches, as those of CuTe DSL and Warp.

``gpuemu run --record`` runs the program, checks its launches, and keeps the code of each kernel. From that recording
a check knows what was compiled and how it was launched, as long as the text of the module is the same.

- :mod:`.language`: such a language
- :mod:`.preparation`: what a recording shows of a kernel
"""
