"""Kernels as items of the client's test explorer, and runs of them."""
