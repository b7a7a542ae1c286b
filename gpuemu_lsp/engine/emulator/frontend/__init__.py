"""PTX to the emulator's IR: one flat control-flow graph per kernel, device functions inlined."""
