"""The device library: LLVM functions that generated code calls, compiled once per process and kept in the disk cache.

:mod:`.library` builds and links it. :mod:`.checked_access` and :mod:`.row_access` check and perform accesses that
generated code does not handle inline, :mod:`.async_copy` and :mod:`.mbarrier` implement objects with state,
:mod:`.block_scheduler` executes warps, and the ``race_*`` modules are the race detector, which this page describes.

The race detector
=================

Two accesses to overlapping bytes by different threads *conflict* if at least one writes. They *race* if they conflict,
are not both strong (atomic, volatile flags), and neither happens before the other (PTX ISA section 8.7.1). The detector
computes happens-before for the accesses that a launch actually makes, as FastTrack does for Java threads (Flanagan and
Freund, PLDI 2009). It does not depend on the order in which the emulator happens to execute blocks and warps: a race is
found even though, in the emulator, one block has always ended before the next starts.

Sources of order on a GPU, from the most to the least frequent:

====================================  =====================================================  ==========================
order                                 in the PTX manual                                      represented as
====================================  =====================================================  ==========================
program order of a thread             8.9.1                                                  equal thread numbers
barrier of all threads of a block     ``bar.sync``, 9.7.13.1                                 block's last-barrier epoch
barrier of all live lanes of a warp   ``bar.warp.sync`` and other ``.sync`` collectives      warp's last-barrier epoch
barrier of some lanes of a warp       the same with a partial member mask                    lane clocks
release and acquire through memory    8.8: fences with flags, locks; ``mbarrier``            vector clocks, in Python
named barriers, ``bar.arrive``        9.7.13.1                                               vector clocks, in Python
====================================  =====================================================  ==========================

Lanes of a warp are not ordered by executing in lock step: since Volta, hardware does not promise it.

Epochs
------

FastTrack's observation is that a full vector clock per variable is rarely needed: one *epoch*, a clock value with the
thread it belongs to, stands for the last write. Here an epoch is the clock of a warp (``Warp.EPOCH``); every
synchronisation starts a new one. A barrier that all threads of a block execute also sets the *last-barrier epoch* of
the block, and of each of its warps: everything that a thread of the block did in an earlier epoch is ordered before
now. The test "is the stored access ordered before mine?" is then a comparison of its epoch with one of three numbers,
by the distance of the two threads (:meth:`.race_epochs.AccessView.unordered`):

- same thread: always ordered;
- same warp: the warp's last-barrier epoch;
- same block: the block's last-barrier epoch;
- different blocks: the first epoch of the launch, because inside a launch no barrier orders blocks.

A block starts in an epoch after all those that used its shared memory before; a launch starts after all epochs of
earlier launches. Shadow memory therefore needs no clearing.

Shadow cells
------------

A *shadow cell* stores, for each 4 bytes of memory (2 or 1 if the kernel has smaller accesses that can race), the last
write and the last read: thread, epoch and site. Its words lie in planes, so that the cells of a warp's access are
vectors (:class:`~gpuemu_lsp.engine.emulator.abi.race_records.ShadowPlane`).

One stored access suffices, because an access that is ordered before the current one can be forgotten: whatever is
ordered after the current one is ordered after both. Accesses that are not ordered before it must stay. Reads never race
with reads, nor strong accesses with strong ones, so that these can pile up without a report. They are merged into one
record with the latest clock and a *spread*: the smallest of thread, warp, block and grid that contains all of them. A
later access is compared as if it were that far away, which asks for an order after each of them. For several lanes of
one warp a bit mask says which. FastTrack switches to a vector clock per variable in this case; the spread is its
replacement of constant size.

Details that are easy to break are commented where they are: the weak access that stays under a strong one
(:meth:`.race_detector._LaneCell.record`), the second reader that is kept to name the other party
(:func:`.race_epochs.keep_other_reader`), and the equal-value rule (``race_conflict``).

Batches and shadow lines
------------------------

A check per lane and cell would cost more than the kernel. Three levels, each falling back to the next:

1. *Shadow lines* (:mod:`.race_lines`), for rows in global memory: one record for 16 cells says that thread ``n + i``
   accessed cell ``i``. As long as the same threads come back, program order is all that matters. The first access by
   other threads expands the line to its cells.
2. *Batches* (:mod:`.race_batch`): 16 cells are compared at once. In shared memory one comparison with the block's
   last-barrier epoch usually decides, without a look at threads.
3. *Lanes* (:mod:`.race_detector`): everything that looks like a conflict, and all accesses that order threads, are
   repeated lane by lane. Only here are races reported.

The analysis excludes accesses that cannot race before any code is generated (``analysis/race_candidates.py``): memory
that is never written, accesses separated by barriers, addresses that threads do not share.

Approximations
--------------

Races that are missed, by decision:

- *Equal values.* A weak store of the bytes that memory already holds is not reported: threads that all set one flag are
  common, and the result does not depend on their order.
- *Scopes.* A fence or atomic of ``.cta`` scope orders as one of ``.gpu`` or ``.sys`` scope does.
- *Collectives.* Every ``.sync`` collective orders its lanes; the CUDA guide promises that for ``__syncwarp`` only.
- *Vector clocks with merged records.* Where the cell stands for several blocks, or for threads of which some are known
  to be ordered, the answer is "ordered" (:meth:`~gpuemu_lsp.engine.emulator.launch.vector_clocks.VectorClocks`).
- *Weak before strong.* Of a weak access and, after a block barrier, an atomic by the same thread to the same location
  only the atomic is stored, so that a race of the weak access with another block's atomic is missed.
- *Paths.* Only accesses that happen with the given input are compared.
- *Reports.* One event per site is recorded with both parties; further ones are counted.

Races that are reported although there is none:

- *Merged records under partial masks.* The latest clock stands for every member of a merged record, although an earlier
  member may be ordered. Lane 0 reads and synchronises with lane 1; lane 2 reads later and synchronises with lane 1;
  lane 1 writes. The record's clock is that of lane 2's read, after which lane 0 has not synchronised.

Random programs with barriers and warp synchronisation are compared with all pairs of accesses, in both directions
(``tests/unit/emulator/devicelib/test_random_races.py``).

Cost
----

Thirteen planes of 4 bytes each: 13 bytes of shadow per byte of memory at 4 bytes per cell, reserved for the whole arena
but committed by the operating system only where a cell is touched. Rows in global memory that stay within lines touch
32 bytes for 64 bytes of data.
"""
