"""What the emulator is measured against: the same kernels as C, as OpenCL on PoCL, and in numba's CUDA simulator."""
