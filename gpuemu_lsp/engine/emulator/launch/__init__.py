"""One launch: memory and arguments, scheduling, vector clocks, events, counters and coverage.

:mod:`.setup` lays out memory (:mod:`.arena`, :mod:`.arguments`) and fills the records of :mod:`.state`;
:mod:`.scheduler` runs the blocks and describes how scheduling is divided between generated code and Python,
:mod:`.attendant` decides how a block goes on, and :mod:`.threads` runs blocks on several host threads;
:mod:`.events`, :mod:`.counters` and :mod:`.coverage` turn what generated code has recorded into results, and
:mod:`.recorder` keeps what one block did, from a moment on at which :mod:`.entry_state` is what is left of before.

:mod:`.barriers` resolves barriers when no warp can execute, :mod:`.cluster_barrier` and :mod:`.clusters` do so for
clusters, :mod:`.limits` ends what waits for ever or takes too long, :mod:`.vector_clocks` with :mod:`.clocks` is the
part of the race detector in Python, :mod:`.race_shadow` its memory, :mod:`.race_events` its reports and
:mod:`.unused_reads` the reads that cannot matter. :mod:`.tma` executes bulk copies, :mod:`.tensor_memory` operations
on tensor memory, :mod:`.async_order` checks what both do, and :mod:`.async_proxy` passes them their events.
:mod:`.device_memory` is memory that lasts from launch to launch, :mod:`.host_addresses` are addresses in buffers.
:mod:`.device_runtime` has ``printf`` and ``malloc`` of device code.
:mod:`.access_messages`, :mod:`.texture_faults` and :mod:`.memory_transactions` word and count what was accessed.
"""
