"""Many kernels: what was asked for becomes requests, requests become jobs, and their events one run."""
