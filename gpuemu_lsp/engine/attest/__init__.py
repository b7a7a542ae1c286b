"""Signed reports: what a run said, of which files, by whom. in-toto statements in DSSE envelopes, with Ed25519."""
