"""Helpers shared by the tests: launches, sample kernels, clients and projects."""
