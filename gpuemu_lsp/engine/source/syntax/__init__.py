"""Shallow C++ syntax: top-level items, the declaration in each, parameter lists, ``__global__`` functions.

Nothing here is a C++ grammar: brackets, semicolons and a few keywords are enough to find kernels, and a text with
unknown macros or half-written lines still yields its other kernels.
"""
