"""The debug adapter: a server of the Debug Adapter Protocol on standard input and output, for one session.

``messages``      messages on a byte stream
``adapter``       the life of a session: launch, requests that are passed on to the worker, end
``capabilities``  what the client may ask for
``start``         the command

This process imports no code of the user and no compiler: the recording is made, and looked at, in a worker. Requests
about it are passed on as they are, over a socket, and answered there by :mod:`gpuemu_lsp.engine.debugger`.
"""
