"""Header search: includes and what they resolve to, CUDA's and the standard library's headers, includers, kernels."""
