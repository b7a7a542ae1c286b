"""Front end: one PTX kernel with all the functions it calls, turned into a :class:`..ir.program.Program`.

::

    ptx.model.Function  --flatten-->  basic blocks, calls inlined  --call_parameters-->  Program

=====================  =============================================================================================
``flatten``            entry point: inlines from the kernel on, lays out variables, assembles the program
``inline``             one function body at one call site: labels to blocks, terminators, calls
``inlined_names``      renaming of registers, local variables and call parameters per call site
``simplify``           cache hints dropped, vector atomics split into scalar ones
``sub_word_atomics``   atomics on 16 bits that LLVM expands to a compare-and-swap of the word
``cluster_addresses``  accesses in ``.shared::cluster`` as generic ones
``tensor_loads``       loads from tensor memory whose registers are read without a wait
``group_registers``    registers of ``wgmma`` products in flight: accesses to them, by data flow
``call_parameters``    parameters of inlined calls: registers where possible, else local memory
``address_spaces``     placement of variables in the parameter, shared and local windows
``builder``            the program under construction, and the insertion point
=====================  =============================================================================================

Why inline everything: PTX calls pass parameters through ``.param`` variables, whose bytes the callee may read with
other types than the caller wrote. Inlined, they become registers; control flow becomes one graph, so that divergence,
liveness and webs need no interprocedural part; and a location keeps its chain of call sites, as debug information for
inlined code has it. The exceptions are recursive functions, which have one body and a call stack per thread, and run in
the scalar-PC version only.

Nothing is rejected here. What cannot be run becomes a trap with the finding ``engine/unsupported-instruction`` at its
place, so that a kernel is affected only if a thread reaches it.
"""
