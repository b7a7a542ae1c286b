"""Checks with recorded launches: their plans, and their outputs as a baseline."""
