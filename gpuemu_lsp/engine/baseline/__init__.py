"""Baselines: stored measurements of kernels, compared with new ones: errors, resources and PTX."""
