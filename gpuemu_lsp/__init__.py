"""gpuemu-lsp: catch silently wrong CUDA kernels while they are being written."""

__version__ = "0.2.0"
