"""Implementations of the commands, imported when a command runs."""
