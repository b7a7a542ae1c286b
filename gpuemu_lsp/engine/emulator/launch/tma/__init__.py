"""Bulk copies between global memory and shared memory (PTX ISA sections 5.5 and 9.7.9.25.4-5), executed in Python.

=====================  ================================================================================================
module                 content
=====================  ================================================================================================
``places``             bytes by their pattern and base address: gathered, scattered and filled
``boxes``              the bytes of a box of a tensor in global memory, and of its tile in shared memory
``maps``               tensor maps in memory: what copies read, and what the kernel changes
``targets``            the blocks of a cluster whose shared memory a copy writes
``races``              copies, products and stores of the asynchronous proxy in the race detector
``reductions``         ``cp.reduce.async.bulk`` and ``red.async`` on bytes of memory
``pending_copies``     copies that have not arrived, and their arrival
``copies``             executes the copies of one launch
=====================  ================================================================================================

A load arrives as late as its program may observe: when a thread tests the ``mbarrier`` object that it completes on.
Until then its target holds poison that counts as uninitialised, so that a read before the phase is reported. A store
reads shared memory when it is issued.
"""
