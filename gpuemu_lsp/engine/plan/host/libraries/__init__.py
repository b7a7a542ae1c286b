"""Functions of libraries in host code: CUDA, C and C++, thrust, PyTorch."""
