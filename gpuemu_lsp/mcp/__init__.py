"""``gpuemu mcp``: the engine as tools of the Model Context Protocol (MCP), over standard input and output.

Both forms of the protocol are spoken, each request by its own: since revision 2026-07-28 a request has what it needs in
``_meta``, and there is no handshake; up to 2025-11-25 ``initialize`` comes first.

Threads and processes
---------------------
The main thread reads messages and answers all but tool calls. Each tool call has a thread, whose jobs run in one pool
of workers, which lasts as long as the server. A call is ended by its budget or by ``notifications/cancelled``: its jobs
are cancelled, and their workers killed. The server ends when standard input does; however it ends, its fork server
kills all workers. Nothing of the user's runs in this process: compilers, kernels and references run in workers,
answers to benchmarks in a child.

A tool that cannot answer says why in its result: an exception of a tool is text for the client, never silence.

Modules: ``start`` (the process), ``connection`` (lines of JSON-RPC), ``protocol`` (methods, revisions), ``resources``,
``call`` (one tool call), ``schemas`` (JSON Schema of arguments and results), ``session`` (what outlives a call),
``long_results`` (lists that are cut), ``workspace`` (folders of texts without a file), ``targets`` (what arguments are
about), ``records`` (results), ``tools``.
"""
