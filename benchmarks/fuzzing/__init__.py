"""Generators for emulator fuzzing: mutated PTX texts, and random kernels with their expected results."""
