"""Comparison of the emulator with a GPU: launches are recorded where there is none, and repeated where there is one.

    python -m benchmarks.hardware record FOLDER -- PYTEST_ARGUMENTS    the launches of tests
    python -m benchmarks.hardware programs FOLDER [--first N] [--count N] [--kernels N]    random programs
    python -m benchmarks.hardware replay FOLDER [--log FILE]    on the machine with the GPU

Recorded is what completed without an event: PTX, configuration, arguments and the bytes that the emulator returned.
The replay needs NumPy and CuPy only. It prints every launch whose bytes differ, and exits with 1 if there is one.
"""
