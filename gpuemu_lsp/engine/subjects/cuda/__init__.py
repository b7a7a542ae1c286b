"""CUDA kernels: the whole file of a kernel is compiled once, for all its kernels, and one code serves all cases.

:mod:`.language`, :mod:`.preparation`
    The language, and the preparation of a kernel.
:mod:`.program`, :mod:`.session`
    The program that is compiled, and what the checks of its kernels share.
:mod:`.missing_headers`, :mod:`.newer_architecture`
    Compile errors that are not mistakes of the user, and code for a newer architecture.
:mod:`.recorded_launches`
    Plans of the launches that a run has recorded.
"""
