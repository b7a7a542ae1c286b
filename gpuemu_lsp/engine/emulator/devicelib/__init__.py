"""The device library: LLVM functions that generated code calls, compiled once per process and kept in the disk cache.

:mod:`.library` builds and links it. :mod:`.checked_access` and :mod:`.row_access` check and perform accesses that
generated code does not handle inline, :mod:`.async_copy` and :mod:`.mbarrier` implement objects with state,
:mod:`.block_scheduler` executes warps, :mod:`.block_claims` and :mod:`.claim_windows` keep apart what host threads
access, :mod:`.shadow_bytes` loops over the shadow of an access, :mod:`.textures`, :mod:`.surfaces` and
:mod:`.texture_records` read and address texels. :mod:`.race_batch` to :mod:`.race_order` are the
race detector, which this page describes: :mod:`.race_epochs` compares epochs, :mod:`.race_conflicts` says what else
orders two accesses, :mod:`.race_order` keeps orders per lane and asks Python for clocks.

The race detector
=================

Two accesses to overlapping bytes by different threads *conflict* if at least one writes. They *race* if they conflict,
are not *morally strong*, and neither happens before the other (PTX ISA section 8.7.1). Two accesses are morally strong
if both are strong (atomic, volatile flags) and the scope of each includes the other thread (section 8.5): an atomic of
``.cta`` scope races with one of another block. The detector computes happens-before for the accesses that a launch
actually makes, as FastTrack does for Java threads (Flanagan and Freund, PLDI 2009). It does not depend on the order in
which the emulator happens to execute blocks and warps: a race is found even though, in the emulator, one block has
always ended before the next starts.

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
one warp a bit mask says which, and :mod:`.member_epochs` when, if lanes have synchronised in between. FastTrack
switches to a vector clock per variable in this case; the spread is its replacement of constant size.

"Can be forgotten" has an exception: a weak access that is ordered before a strong one races with strong accesses that
the strong one does not race with. Where a record includes strong accesses, the weak ones are stored once more, apart
(:meth:`.race_detector._LaneCell._keep_weak`): a weak access is compared with the whole record, a strong one with these.
One block initialises a counter, waits at a barrier and counts; another block's count races with the initialisation.

Details that are easy to break are commented where they are: the second reader that is kept to name the other party
(:func:`.race_epochs.keep_other_reader`), and the equal-value rule (``race_conflict``).

Plain reads, volatile locks, unused values
------------------------------------------

Three questions that clocks do not answer are answered by where values go:

- A plain read races with another thread's atomic operation, but correct programs contain such reads
  (``analysis/atomic_reads.py``). One whose value only a compare-and-swap of the address compares counts as strong. One
  that only decides if an atomic operation is needed (``if (v > *m) atomicMax(m, v)``) makes a warning of the race. So
  does one that guards writes of a single value, as in a breadth-first search.
- Volatile accesses are strong, but two threads may both find a lock free before either takes it
  (``analysis/volatile_locks.py``). The read and the write that take such a lock count as weak.
- A clamped read, ``v = x[min(i, n - 1)]; if (i < n) ...``, has no consequence in threads that discard the value
  (``launch/unused_reads.py``). It is not reported where thread index and arguments prove that.

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
- *Scopes.* ``.cluster`` counts as a scope of all blocks. A fence on the acquiring side is not needed, so that its scope
  does not matter either.
- *Collectives.* Every ``.sync`` collective orders its lanes; the CUDA guide promises that for ``__syncwarp`` only.
- *Vector clocks with merged records.* Where the cell stands for several blocks, or for threads of which some are known
  to be ordered, the answer is "ordered" (:meth:`~gpuemu_lsp.engine.emulator.launch.vector_clocks.VectorClocks`).
- *Locks.* A volatile lock is recognised where constants take and release it, and no other way leads to the write.
- *Paths.* Only accesses that happen with the given input are compared.
- *Reports.* One event per site is recorded with both parties, and one more where a weak access meets a strong one;
  further ones are counted.

Races that are reported although there is none:

- *Partial masks.* Two records that share an entry of the table of :mod:`.member_epochs` lose each other's epochs: an
  earlier member then counts as one of the latest.

Random programs with barriers, warp synchronisation and scopes are compared with all pairs of accesses, both ways
(``tests/unit/emulator/devicelib/test_random_races.py``).

Cost
----

Twenty-one planes of 4 bytes each: 21 bytes of shadow per byte of memory at 4 bytes per cell, reserved for the whole
arena but committed by the operating system only where a cell is touched. Rows in global memory that stay within lines
touch 32 bytes for 64 bytes of data.
"""
