"""Functions that multiply matrices: fragments of one warp (``mma``), and operands in shared memory (``wgmma``)."""
