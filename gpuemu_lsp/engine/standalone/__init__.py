"""Failing cases as files of their own: a script and an archive that show a failure without the project."""
