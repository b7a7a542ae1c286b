"""One small module per output format. A format turns a finished run, or its events as they come, into text."""
