"""The emulator's IR: a flat control-flow graph of typed PTX instructions."""
