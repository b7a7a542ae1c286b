"""From the PTX that a program has loaded to the emulator's request for one of its launches.

It owns loaded modules and kernels. It never makes a launch.

- :mod:`.linking`: one PTX text of those of separately compiled objects
- :mod:`.kernels`: kernels, and launches as a program makes them
- :mod:`.modules`: loaded modules, with their variables in device memory
- :mod:`.requests`: the request for a launch, with the buffers that its arguments point to
"""
