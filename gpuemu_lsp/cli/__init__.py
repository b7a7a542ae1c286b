"""The two commands. Thin: they parse arguments, call the engine, and choose where text goes."""
