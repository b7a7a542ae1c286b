"""Findings by source, results per kernel, and the diagnostics published from them."""
