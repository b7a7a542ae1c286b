"""Building of whole programs: nvcc of NVIDIA's wheels, our runtime library, and a folder in place of the toolkit."""
