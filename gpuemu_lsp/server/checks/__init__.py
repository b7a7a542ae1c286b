"""Checks of the client's files: requests, scheduling, and filing of their results."""
