"""Checks of the installation: versions, libraries, and one kernel from its source to its verdict."""
