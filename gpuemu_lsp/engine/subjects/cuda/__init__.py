"""Compilation of the file of a kernel: what the checks of its kernels share, and the program that is compiled."""
