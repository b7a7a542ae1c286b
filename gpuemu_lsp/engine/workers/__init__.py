"""Worker processes: isolation, streamed results, time and memory limits, kill and recovery.

Everything that may crash, hang or be the user's own code (NVRTC, the emulator, a Python reference) runs in a worker
process, never in the server or the command line. This package does not depend on what a job does: a job names an entry
of a fixed table of functions and carries a JSON payload, and its results are JSON (:mod:`frames`, :mod:`wire`).

Processes and threads
---------------------
::

    server or command line               fork server               worker 1 .. size
      caller's threads                     one thread                main thread
      callback thread                      forks, signals,           runs jobs
      supervisor thread <----control---->  reaps
              ^                                                        |
              +-------------------channel, output pipe-----------------+

The *supervisor thread* (:mod:`supervisor`, :mod:`worker_set`) owns every descriptor, the job queue and all decisions.
Other threads only append to its inbox and wake it, so its state needs no lock. The *callback thread*
(:mod:`job_handle`) runs the callers' callbacks, so that a slow callback delays neither time limits nor kills.

The *fork server* (:mod:`fork_server`) imports NumPy, llvmlite, CuPy and the engine once, forks a worker in a few
milliseconds, signals and reaps workers, and never runs a job. Cheap workers make it possible to kill one at any time,
and to give every reference file a process that no other user code has run in.

A *worker* (:mod:`worker`) receives jobs on a socket that it does not share, and streams what they yield. Standard
output and error are a pipe of which the pool keeps the last part; nothing printed can corrupt the results.

How a kill reaches a process tree
---------------------------------
Workers and the fork server are subreapers (``PR_SET_CHILD_SUBREAPER``): a descendant whose parent ends becomes a child
of the nearest subreaper, whatever session or process group it moved to.

- After each job the worker kills its own children until none is left.
- A worker that is killed leaves its descendants to the fork server, which kills every child that is not a worker until
  none is left (:func:`system.kill_children`).
- The pool closes, or its process ends in any way including ``SIGKILL``: the control socket ends, and the fork server
  kills all its children, removes the temporary folder of all workers and exits.
- The fork server does not end in time: the pool stops it, kills its descendants until none is left, then kills it.
- The fork server dies: the kernel kills its workers (``PR_SET_PDEATHSIG``). What their jobs started has no subreaper
  left; the pool finds it by a mark in the environment. Only a program that a job started with another environment
  escapes in this case.

When a process ends
-------------------
============================  =====================================================================================
worker, while idle            replaced when the next job needs one
worker, before it accepted    the job returns to the front of the queue, up to three attempts
worker, during a job          the job ends as ``WorkerDied`` with the signal or exit code
fork server, starting         waiting jobs end as ``WorkerDied``; for five seconds new jobs fail at once
fork server, later            running jobs end as ``WorkerDied``; the next job starts another fork server
pool                          every job ends as ``Cancelled``
============================  =====================================================================================

Limits
------
Wall time is enforced by the supervisor. When it has passed, the worker first gets ``SIGUSR2``, on which faulthandler
writes the Python stack even from within C code, and 0.1 s later ``SIGKILL``. Memory is limited by ``RLIMIT_DATA``,
which counts private writable memory: reserved address space (the emulator's arena, a CUDA context) is free, and an
allocation beyond the limit is a ``MemoryError`` in the worker instead of an OOM kill on the machine. Workers also raise
their ``oom_score_adj``, so that the OOM killer takes them before the editor.

Order of events
---------------
Jobs start in the order in which they were submitted. The events of one job reach its callback in the order in which it
yielded them, one at a time, and end with exactly one ending, also when the worker dies or the pool closes. After
:meth:`JobHandle.cancel` returns, no further progress is queued. :meth:`JobHandle.wait` returns after the last callback.
Events of different jobs interleave in any order.

Why fork after preload is safe here
-----------------------------------
A fork copies one thread only: a lock held by another thread would stay locked in the child for ever. So the fork server
has a single thread when it forks. BLAS is limited to one thread by the environment, imports and warm-up steps must not
leave threads behind, CUDA is imported but not initialised, and no user code ever runs there. Before the first fork all
objects are excluded from garbage collection (``gc.freeze``), so that a collection in a worker does not touch, and
thereby copy, every page.

A child must not share with its parent or siblings:

- Descriptors. The control socket and the wake-up pipe are closed in the child. The fork server closes its copies of a
  worker's channel and output pipe right after the fork, so that no later worker inherits them and keeps them open. The
  channel is closed in processes that a job forks, and such a child that returns into the job loop exits.
- Shared mappings. The race detector's shadow cells are mapped ``MAP_SHARED``, because ``RLIMIT_DATA`` does not count
  them then. A forked child drops the mapping it inherited (``os.register_at_fork``) and makes its own.
- Folders named after a process, such as NVRTC's scratch folder. They are keyed by pid, and a child creates its own.
  Precompiled headers in the parent's folder stay usable: they are bound to addresses, which a fork preserves.

Modules other than those named: ``pool`` (its public interface), ``model`` (jobs, limits, events), ``processes`` (the
pool's end of its children), ``system`` (Linux system calls), ``selftest`` (jobs for tests).
"""
