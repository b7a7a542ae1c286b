"""Plans: buffers, scalars and launch of one kernel and dtype, with sizes still symbolic.

:func:`.resolve.resolve` makes a plan from three sources: the entry of gpuemu.toml (if the kernel is registered), the
kernel's signature, and its launches in host code. The stages run in this order, because each needs the results of the
earlier ones:

1. :mod:`.entry` finds the ``__global__`` function, and the instances of a template to compile: those of ``entry`` and
   ``dtypes`` in gpuemu.toml, else those that launches in the file use, else default arguments, else ``float``.
2. :mod:`.arguments` gives every C parameter a role: that in gpuemu.toml, or without ``[kernels.args]`` one inferred
   from the signature. Pointers to const are then inputs, other pointers outputs, and integers sizes. Typedefs and
   macros in the types are resolved from the mangled name (:mod:`.mangled`) once the file has been compiled.
3. :mod:`.launch` finds grid, block and shared memory: gpuemu.toml, else the first launch in host code that the sizes
   decide, else, for a kernel with a single size, one thread or block per element. Sizes that such a launch computes
   from others are expressions over these (:mod:`.computed_sizes`), and integers that memory holds at it are those of
   the plan (:mod:`.known_contents`).
4. :mod:`.size_limits` restricts inferred sizes to those that the compiled code supports: code that computes ``n / 32``
   and never ``n % 32`` is only correct for multiples of 32. Before compilation no such limit is known.
5. :mod:`.probe` finds the buffer lengths of an inferred plan by running the kernel, with the products of sizes that
   :mod:`.candidates` proposes and :mod:`.length_search` tries. It runs later than the others, since it needs compiled
   code.

A registered kernel that cannot be resolved has error findings that say what to add. For a file without gpuemu.toml
nothing is an error: where inference fails the kernel is compiled but not run, and a hint gives the reason. An inferred
plan must never cause a false positive, so inference prefers to give up.

:mod:`.facts` has the facts about the launches of a plan, with their sources. :mod:`.resolve` goes through the
stages, with the shared inputs of :mod:`.context` and the records of :mod:`.model`; :mod:`.device_names` and
:mod:`.array_lengths` are what the file declares. :mod:`.configured` and
:mod:`.struct_arguments` read arguments of gpuemu.toml, :mod:`.struct_layout` and :mod:`.struct_sizes` lay out
structs, :mod:`.textures` are texture objects, :mod:`.skeleton` is the entry to begin with. Launches that gpuemu.toml
does not state come from :mod:`.host` (host code in C++ and Python), :mod:`.wrappers` and :mod:`.triton` (Triton) and
:mod:`.recordings`.
"""
