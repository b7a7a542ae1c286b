"""Scripts in place of functions: they read the inputs of a call as JSON from their standard input."""
