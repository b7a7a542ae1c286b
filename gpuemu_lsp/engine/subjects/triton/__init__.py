"""Triton kernels: the user's module is imported in a worker, and Triton compiles a kernel for each case."""
