"""The LSP edge: the only code that may import pygls or lsprotocol."""
