"""Random CUDA C++ programs with defined behaviour, and their execution on the host and in the emulator."""
