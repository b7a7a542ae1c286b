"""The warm process of a project, which ``gpuemu-lsp --check --daemon`` asks instead of starting workers of its own.

A command takes a second to start: the interpreter imports the engine, a fork server imports the workers' libraries. A
hook that checks after each edit pays that every time. The daemon has both, and runs the same command on behalf of a
client, whose arguments, folder, environment and standard streams it is sent: the same code writes to the same streams,
and the client ends with the same exit code.

It is asked for by an argument because a process that outlives its command is a surprise in a container or a CI job.

====================  ================================================================================================
one per               project folder, interpreter, version and environment of the client (:mod:`address`). Another
                      environment is another daemon, so that nothing depends on who has started it
open to               its user: the folder of the socket has mode 0700 and its owner is compared, and both ends compare
                      the other's user (``SO_PEERCRED``)
starts                when it is first asked for; the command that starts it waits for it
ends                  after ten minutes without a request, when its project folder or socket is gone, when the product
                      was installed again, by ``gpuemu daemon stop``
is busy               the second client runs the check itself, as without a daemon
loses its client      what the client has started is cancelled, and its workers are killed
is killed             its workers end with it (:mod:`gpuemu_lsp.engine.workers`); the client says so, with exit code 3
loses its workers     as any pool: a check whose worker was killed begins again, once
====================  ================================================================================================

``client`` and ``address`` are imported by the entry point at each start: they import nothing of the engine, and neither
``dataclasses`` nor ``json``, each of which costs as much as the rest of it. ``serve`` is the daemon.
"""
