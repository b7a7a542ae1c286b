"""Checks of the asynchronous proxy (PTX ISA section 8.6): what bulk copies and ``wgmma`` access, which no thread does.

=====================  ================================================================================================
module                 content
=====================  ================================================================================================
``operands``           where the elements of a ``wgmma`` operand lie in shared memory, 16 bytes at a time
``operand_checks``     whether operands of products are there, and where their descriptors say
``tiles``              what each 16 bytes of a block's shared memory hold: the copy that wrote them, or stores
``products``           products of a warp group, from issue to ``wgmma.wait_group``; their operands are checked
``arrivals``           ``mbarrier`` objects: who arrived, what was expected, who waits
``traffic``            the state of all blocks, common to the checks, and their reports
``barrier_checks``     misuse of ``mbarrier`` objects; what a thread that hangs waits for
``copy_checks``        what a bulk copy overwrites, and what overwrites the source of a bulk store
``group_checks``       registers, operands and descriptors of products
``register_pool``      registers of warps: ``setmaxnreg``
=====================  ================================================================================================

Four facts are compared, each of which a program has to establish by an instruction of its own:

- A copy writes its tile from its issue on, until a thread has waited for the phase of its ``mbarrier``.
- A product reads its operands from its issue on, until a warp of its group has waited for it. The other three warps may
  rely on that, and an arrival at an ``mbarrier`` carries no more than its own thread has waited for.
- A store to shared memory is visible to the asynchronous proxy after a ``fence.proxy.async``. The shadow bit
  ``WRITTEN`` of shared memory says that there was none; a fence by any thread of the block clears it for all of them,
  which can only miss bugs.
- The 16 bytes at an address are elements of a tensor if a copy has written them: both operands of a product must step
  along k together, and the pattern of the descriptor must be that of the tensor map.
"""
