"""Output formats, one module for each: a finished run becomes text."""
