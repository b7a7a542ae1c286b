"""Notebooks: their cells as documents that the rest of the server knows, and the way back to the cells.

The Python cells of a notebook are one module, which is a document under the notebook's path with ``.py`` after it; a
cell of CUDA code (``%%cuda``) is a document of its own. The other packages see these documents only. Positions and URIs
are those of cells on the client's side, and are replaced in the messages of both directions. A text that
was never saved is such a document of one part. :mod:`gpuemu_lsp.server.checks.virtual_documents` keeps them.

===============  ===============================================================================
``cells``        the text of a module that Python cells are, and of a cell with a CUDA magic
``translation``  URIs and positions in parameters, results and diagnostics, of both directions
===============  ===============================================================================
"""
