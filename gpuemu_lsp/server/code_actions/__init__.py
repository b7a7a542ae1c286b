"""Edits behind the quick fixes of the server's diagnostics."""
