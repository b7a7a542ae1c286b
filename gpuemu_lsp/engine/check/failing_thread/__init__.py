"""Values of the failing thread at the line of a finding: what it loads and stores there, by the names in the source.

The failing case runs once more on PTX that is extended by stores to a log: for each access at the line, the address and
the value of the thread that the finding names. Addresses become elements of arguments and shared variables, and where
the source writes a plain subscript, as in ``x[i]``, the element is the value of ``i``.
"""
