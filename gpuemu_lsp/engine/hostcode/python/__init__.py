"""Python as a front end of host code.

- :mod:`.lower` turns the syntax trees of one function, or of the statements of a module, into the representation.
"""
