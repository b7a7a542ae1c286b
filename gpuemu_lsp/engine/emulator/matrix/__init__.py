"""Tensor-core instructions: shapes, fragment layouts, and their lowering to ordinary PTX (PTX ISA section 9.7.14).

A warp-wide matrix instruction is lowered to loads, stores and arithmetic of single lanes wherever possible, so that all
checkers (bounds, initialisation, races) see its accesses like any others. Two operations remain that exchange data
between lanes, and have code of their own: the product (``mma``), and the permutations of 16-bit halves of
``ldmatrix``, ``stmatrix`` and ``movmatrix``.

=================  ===================================================================================================
``product``        shape and types of an ``mma``, and the registers that hold its fragments
``wmma``           fragments of ``wmma.load`` and ``wmma.store``; the ``mma`` tiles of a ``wmma.mma``
``permutation``    source of each 16-bit half in ``ldmatrix``, ``stmatrix``, ``movmatrix``
``warpgroup``      the loads and ``mma`` tiles that one warp executes of a ``wgmma`` (section 9.7.15)
``tensor_memory``  forms of ``tcgen05``, whose matrices are in tensor memory (section 9.7.16)
``lowering``       instructions that one matrix instruction is lowered to; called by the front end
=================  ===================================================================================================

A *fragment* is the part of a matrix that one lane holds. All lanes of the warp must execute a matrix instruction
converged (``.sync.aligned``), so the front end puts a barrier of the warp in front of it.
"""
