"""Subjects: what can be checked, behind one protocol.

A subject gives each case of a plan the code that runs it (:class:`~.model.CaseCode`): the artifact, its arguments and
launch options, its arithmetic, and where its instructions are in the source. A CUDA kernel has one artifact for all
cases of a plan (:mod:`.cuda`); Triton compiles a kernel again for other types, compile-time values and alignments
(:mod:`.triton_preparation`).
"""
