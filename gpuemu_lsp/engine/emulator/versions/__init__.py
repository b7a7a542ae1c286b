"""Compiled versions of a kernel: specialised, general and speculative code, and the tiers between them."""
