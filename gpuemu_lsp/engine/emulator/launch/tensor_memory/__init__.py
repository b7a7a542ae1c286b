"""Tensor memory (PTX ISA section 9.7.16): executes ``tcgen05``, and checks what orders its accesses.

=====================  ================================================================================================
module                 content
=====================  ================================================================================================
``calls``              an operation with its operands
``descriptors``        instruction descriptors: shape and types of a product
``numbers``            values of matrix elements by format, and their sums
``fragments``          the cells that a load or store gives to each register of a warp
``cells``              the tensor memory of a block: contents, allocations, who has written what
``layouts``            lanes and columns of accumulators and scale factors
``operands``           operands in shared memory
``products``           executes products and copies to tensor memory
``commits``            arrivals at ``mbarrier`` objects that follow products, and which of these are complete
``order``              checks of accesses: in allocated columns, after what wrote them
``cores``              receives the operations of generated code, and passes them on
=====================  ================================================================================================

An operation is executed when it is issued, the earliest moment that the manual allows, and is complete as late as it
may be: a product when a test of an ``mbarrier`` object succeeds to which a later ``tcgen05.commit`` of its thread
arrives, a load or store at the ``tcgen05.wait`` of its warp. Accesses to the same cells by any thread must come after
that, by a wait of the thread or of one that it is ordered behind, unless both operations are executed in order:
products, and copies to tensor memory.
"""
