"""Launches of Triton kernels that gpuemu.toml does not register, read from the functions that make them.

A function that launches a kernel is interpreted (:mod:`gpuemu_lsp.engine.hostcode`) with tensors and numbers that are
not known: extents are expressions of the sizes of its parameters. Nothing of the module is imported.

``inference``, ``launching_files``
    The launches of a kernel, in its file and in those that import it.
``wrapper_runs``, ``ranks``
    The interpretation of a function without a caller, and the ranks that its code shows of its tensors.
``layouts``
    Launches with tensors that are not contiguous, where the function reads strides.
``launch_relations``
    What holds of the sizes where a launch is made: equal sizes, bounds and divisors.
``kernel_accesses``
    The parameters of a kernel that it loads, stores, and takes addresses from.
``launch_entry``, ``launch_sizes``, ``inferred_kernel``
    The entry of a kernel that follows from a launch, as gpuemu.toml would have it, or what is missing.
``call_sites``
    Sizes with which the module calls the function that launches.

The package must never evaluate Python itself: what an expression, a call or a class means is in ``hostcode``, for all
languages.
"""
