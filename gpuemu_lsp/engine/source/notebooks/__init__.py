"""Jupyter notebooks: their cells as the files that they would be.

The Python cells of a notebook are one module, under the notebook's path with ``.py`` after it; a cell of CUDA code
(``%%cuda``) is a source of its own. No file has these names.

- :mod:`.cells` makes their texts of those of the cells, which a client or a file has.
- :mod:`.files` reads the cells of a ``.ipynb``, with the place of each of their lines in it.
"""
