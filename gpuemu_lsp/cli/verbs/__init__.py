"""Argument parsers of ``gpuemu``'s verbs. They do not import the engine, so that ``--help`` is fast."""
