"""Jobs about all kernels of one file: what their checks have in common is read and compiled once."""
