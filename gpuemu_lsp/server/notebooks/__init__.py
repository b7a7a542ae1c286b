"""Notebooks: the way from the cells of a client to the sources that they are, and back.

The other packages see the documents of :mod:`gpuemu_lsp.engine.source.notebooks` only. Positions and URIs
are those of cells on the client's side, and are replaced in the messages of both directions. A text that
was never saved is such a document of one part. :mod:`gpuemu_lsp.server.checks.virtual_documents` keeps them.

===============  ===============================================================================
``translation``  URIs and positions in parameters, results and diagnostics, of both directions
===============  ===============================================================================
"""
