"""What is in a .cu file: kernels, signatures, launches, includes, and the device view that NVRTC can compile."""
