"""The language server: the only package that imports pygls and lsprotocol.

Concurrency
===========

Everything runs on one thread, the asyncio event loop of pygls, except:

=====================  ===========================================================================================
worker processes       compile, emulate, run references, read and write the store; may be killed at any time
threads of the pool    pass the workers' events on by ``call_soon_threadsafe``
                       (:class:`checks.scheduler.BatchScheduler`, :class:`jobs.JobRunner`)
the parser thread      parses sources and configurations and computes digests, one call at a time, in order
                       (:meth:`documents.parsed_files.ParsedFiles.run_in_thread`)
the watcher thread     observes folders and passes changed paths on by ``call_soon_threadsafe``
                       (:class:`workspace.file_watcher.FileWatcher`); the headers to watch are searched in a thread
                       of ``asyncio.to_thread`` (:class:`workspace.watched_folders.WatchedFolders`)
debug sessions         each a thread with an adapter, which shares nothing but the pool
                       (:class:`debug_sessions.DebugSessions`)
=====================  ===========================================================================================

The session's state is accessed on the event loop only and therefore needs no locks. It may change during every
``await`` of a coroutine, which reads text and revision before (see the snapshots of :mod:`checks.check_queue`).

**No handler blocks.** A handler occupies the event loop, and with it every other request, for a few milliseconds at
most. It is registered by its kind (:mod:`handlers`):

- Notifications are synchronous: they change the session and enqueue work, in the order in which the client sent them.
  A request that follows sees the change.
- Requests that are answered from the session's state are synchronous.
- Requests that need a parse or a worker are coroutines: they await the parser thread or ``JobRunner.run`` while other
  handlers run. ``$/cancelRequest`` cancels the coroutine, which cancels its job and kills the worker.

Commands that start a check enqueue it and answer at once; only ``gpuemu/waitForIdle`` waits for checks.

**The newest request wins.** A check or compilation is a *batch*, identified by its kind and file. A newer request for
the same key cancels a pending batch and supersedes a running one: the jobs of the older batch are cancelled, and the
pool kills their workers (:mod:`checks.scheduler`). A check also cancels the compilation of its file, which it includes.
An edit does not cancel the check of the last save: its findings are published as stale, on the lines they have moved
to. A save that changes nothing does not supersede either: if the digest of everything that a check reads is that of the
last check, that check goes on, or its results stay (:meth:`checks.check_queue.CheckQueue._check`). A save that changes
only what does not run takes stored verdicts (:mod:`gpuemu_lsp.engine.check.verdicts`); a command runs everything. The
kernel of the last edit, or at the cursor, comes first.

**Publication.** Results carry the revision of the text they were computed from. They are filed under a diagnostic
source (layer, file, kernel), whose older result they replace (:mod:`diagnostics.sources`). A file's whole list of
diagnostics is published when it has changed:

- after the compile stage of a kernel: its compile and artifact findings; findings of the last run stay;
- at the first error of a run, if the last run had none: its errors so far;
- when a kernel has finished: all its findings;
- when a batch has completed: the list without kernels that the file no longer contains.

A client that is a coding agent shows nothing else, so it is also published at once after each edit, and when a check
begins and ends, with the state of the text as its first diagnostic (:mod:`checks.check_states`).

Publications of a batch of many kernels follow each other at a small distance, with all that was filed in between; its
end publishes the rest. A batch that was cancelled or superseded files nothing more. Progress, status, code lenses, the
test explorer and the stored failures follow by events (:mod:`events`), after the results are filed and published.

Start reading at :func:`app.create_server`; :func:`services.build_services` constructs the services in dependency order,
and ``features`` has one module for each LSP method.

The rest, from the start on: ``start`` starts the pool and then the server, ``app`` builds it; ``session``,
``settings`` and ``configuration`` are its state; ``client`` is the connection, ``documents`` and ``workspace`` are
what the client has open, ``notebooks`` the cells of its notebooks as such documents; ``work`` and ``jobs`` are units of
work in the pool; ``kernel_info``, ``code_actions`` and ``test_explorer`` show results.
"""
