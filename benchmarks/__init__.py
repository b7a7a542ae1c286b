"""Benchmarks: ratios to a peer measured in the same run. They are not part of the tests."""
