"""Symbolic integers: sizes, offsets and extents that host code computes from sizes which only a run determines.

One normal form for every reader of host code, whatever its language, so that equal sizes are equal values, and one
store of constraints on them. No module here reads source text, and none knows kernels, tensors or launches. Nothing
assumes that a size is positive: symbols have bounds, and who makes a symbol says which.

- :mod:`.size`: integers as polynomials over symbols, with the other operations as atoms; their rules in one table.
- :mod:`.bounds`: operations on integers, and on their least and largest values.
- :mod:`.conditions`: comparisons of sizes, conjunctions and disjunctions.
- :mod:`.constraints`: what conditions say of sizes: equal ones, bounds, divisors, the only values.
- :mod:`.expressions`: sizes from expressions of gpuemu.toml, and back.
"""
