"""From command lines and files to check requests: which kernels are meant."""
