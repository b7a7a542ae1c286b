"""Analyses of a kernel's IR, between the front end and code generation. All are pure functions of a program.

=======================  ===================================================  =========================================
module                   result                                               used by
=======================  ===================================================  =========================================
``dominators``           immediate dominators and post-dominators             ``cfg``
``cfg``                  blocks in execution order, loops, reconvergence      all others, code generation
                         points
``kernel_graph``         the graph of a kernel of a PTX text, cached          ``dependence``, kernel facts
``dataflow``             solvers for fixed points over graphs                 all others
``webs``                 one register per web (live-range splitting)          all that follow
``liveness``             live registers at block boundaries                   ``divergence``, save and restore of warps
``divergence``           uniform, affine, varying registers; divergent        code generation: scalar or vector, active
                         blocks                                               masks, dispatch
``shape_propagation``    data divergence, the first half of the above         ``divergence``
``affine_rules``         transfer functions of integer instructions           ``shape_propagation``
``register_home``        registers kept in memory instead of LLVM values      code generation
``provenance``           parameters and variables an address derives from     bounds checks, ``race_candidates``
``value_flow``           registers that a value reaches, through the stack    ``race_candidates``, ``hoisted_loads``
``copies_only``          loads whose value is only copied                     uninitialised reads
``hoisted_loads``        loads that a compiler may have speculated            confirmation of findings
``atomic_reads``         plain reads of atomically updated locations          ``race_candidates``, race messages
``volatile_locks``       locks taken without an atomic operation              ``race_candidates``, race messages
``barrier_intervals``    blocks that run between the same two barriers        ``race_candidates``
``register_values``      registers evaluated for many values at once          ``thread_affine``, ``kernel_facts``
``comparison_solver``    arguments at which two sides of a setp are equal     inputs that cases try
``counted_loops``        loops that count to a bound, and so end              limits of a launch
``thread_affine``        values and guards that follow from ``%tid`` alone    ``address_conflicts``
``address_conflicts``    shared accesses of two threads to one address        ``race_candidates``
``race_candidates``      accesses that the race detector instruments          code generation, race detector
``block_claims``         accesses that blocks side by side must claim         code generation, ``launch.threads``
``block_evidence``       threads that shared arrays and loops are for         ``kernel_facts``
``index_bounds``         sizes that indices of threads are compared with       ``kernel_facts``
``kernel_facts``         what a kernel reads and divides by                   plans of unregistered kernels
``dependence``           the sources that decide about each access            severity of findings, tried inputs
=======================  ===================================================  =========================================

:class:`..versions.compiled_kernel.CompiledKernel` runs them in this order: ``cfg``, ``webs`` and ``liveness`` once per
kernel, ``divergence`` and ``register_home`` once per shape of thread blocks, ``race_candidates`` once per block size.
The second group decides how the code computes, the third which checks can be left out. Both are conservative, and where
they rest on an assumption about a run (no 32-bit wrap, all threads at the same barrier) the run checks it.

Start with :mod:`.divergence`, which explains SIMT execution, reconvergence and the scalar-PC version.
"""
