"""Peers of the emulator benchmark: the same kernels in C, in OpenCL on PoCL, and in numba's CUDA simulator."""
