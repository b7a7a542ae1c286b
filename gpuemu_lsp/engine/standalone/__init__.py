"""Export of a failing case as a standalone script and archive, which reproduce it without the project."""
