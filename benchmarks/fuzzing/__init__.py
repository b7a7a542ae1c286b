"""Random and mutated PTX for the emulator."""
