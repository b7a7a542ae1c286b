"""Data-flow analyses of a program: control-flow graph, divergence, liveness, provenance, race candidates."""
