"""Blocks of one launch on several host threads, with the same results and reports as on one.

Which launches
==============

The blocks of most kernels do not communicate: what one writes no other one reads or writes. Then their order cannot
show, and host threads can execute them side by side. That they do not communicate is not assumed, and rarely proved
before: it is *claimed* as they run. Each access to memory that the kernel writes claims its cells for the host thread
that makes it (:mod:`~gpuemu_lsp.engine.emulator.devicelib.block_claims`). A second host thread that accesses such a
cell finds the other one's claim: the launch is dropped, memory is as before it, and it starts again in order. So its
outcome is that of the launch in order, whatever the number of threads and their timing; only its time depends on them.

Claims are made by code that is compiled for it. Accesses to buffers that no instruction of the kernel writes
(``analysis/block_claims.py``, by provenance) make none, and these are most. Atomic operations that commute (integers,
one operation, the result unused) and that alone access a buffer make none either: they are atomic on the host too.

Provenance says from which pointer an address derives, not where it leads. Buffers that a kernel writes are therefore
placed behind those that it only reads, in every launch, and in this code an access may touch the memory of its kind
alone (:class:`~gpuemu_lsp.engine.emulator.abi.access_flags.Window`): what is only read, what commuting operations
update, or what is claimed. A pointer that has left its buffer finds there what it finds in order, as the layout is the
same; elsewhere the access is out of bounds, and the launch is dropped.

A launch begins in order, by one host thread, until it is known that more of them pay. Blocks are in order from the
beginning where the order may show in other ways: calls of the device runtime, clocks, fences and other orders between
threads that vector clocks follow, textures, bulk copies, clusters, values that nothing has written.

What is reported
================

Nothing is merged. A launch that has anything to report (a fault, a race, a trap, a barrier that cannot open, a limit of
steps) is dropped as well, and repeated in order: the repetition decides what is reported, in which order and how often.
A kernel of which one launch was dropped is executed in order from then on, so that it costs one launch at most. Only
the time limit and requests to stop end a launch at once; where it was then depends on time in any case.

Race detection
==============

A race between blocks of different host threads is an access to a claimed cell. Races between blocks of one host thread,
and in a block, are those of the race detector, whose shadow cells each host thread has for itself: it never sees a cell
of another one, so that no access needs a lock. Together the threads' shadow cells are as large as those of one thread,
but for pages at the edges, because claimed memory is accessed by one thread each. They are kept while they are small.

Memory
======

A line of 32 cells has a word of 8 bytes: for every thread together. Besides, a host thread has a launch record, the
records and memory of one resident block, and tables by instruction. Its shared and local memory lie behind the range
that accesses to global memory may touch, and those of the block before are withdrawn meanwhile: a pointer that has left
its buffer finds there what it would find on one thread, a fault.

Modules: ``team`` (the host threads of one launch), ``block_thread`` (what one of them has for itself), ``helpers``
(threads that wait for work), ``claim_table`` (the words).
"""
