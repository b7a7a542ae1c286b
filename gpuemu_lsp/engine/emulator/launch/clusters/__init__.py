"""Clusters of several blocks (PTX ISA sections 5.1.6 and 9.7.13.4), which are resident together.

=====================  ================================================================================================
module                 content
=====================  ================================================================================================
``places``             the blocks of a cluster, their indices, and their windows of shared memory
``schedule``           gives each block of a cluster its turn, until all have ended
=====================  ================================================================================================

Their common barrier is :mod:`~gpuemu_lsp.engine.emulator.launch.cluster_barrier`. Outside of its life a block has no
shared memory: another block's access to it, before the block has started or after it has exited, is out of bounds.
"""
