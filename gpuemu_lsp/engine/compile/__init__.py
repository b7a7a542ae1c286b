"""NVRTC through CuPy: a device view in, PTX, cubin, true resources and NVRTC's diagnostics out. Needs no GPU."""
