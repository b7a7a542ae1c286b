"""The LSP edge: the only code that may import pygls or lsprotocol.

Handlers run on the event loop, take a few milliseconds, and only change the session or enqueue work; everything slow
or foreign runs in the worker pool. :func:`gpuemu_lsp.server.app.serve` is the door.
"""
