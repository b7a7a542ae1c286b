"""Functions that generated code calls, compiled once per process: checked access, race detector, block scheduler."""
