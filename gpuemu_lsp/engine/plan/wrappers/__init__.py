"""Launches of Triton kernels that gpuemu.toml does not register, read from the functions that make them.

A function that launches a kernel is evaluated on symbolic tensors: extents are expressions of the sizes of its
parameters. Nothing of the module is imported.

``values``
    Symbolic values: sizes, tensors, data types, functions.
``objects``
    Modules, and the contexts of autograd functions.
``tensor_functions``
    Functions and methods of PyTorch's tensors.
``comparisons``, ``device_values``
    Conditions, and what a function may ask of the device.
``expression_values``, ``call_values``, ``subscripts``, ``evaluator``
    Expressions, calls and statements of a function.
``assumptions``
    Ranks, equal sizes and bounds that the text of a function states.
``kernel_accesses``
    The parameters of a kernel that it loads, stores, and takes addresses from.
``launch_entry``, ``launch_sizes``, ``inferred_kernel``
    The entry of a kernel that follows from a launch, as gpuemu.toml would have it, or what is missing.
``inference``, ``launching_files``
    The launches of a kernel, in its file and in those that import it.
``call_sites``
    Sizes with which the module calls the function that launches.
"""
