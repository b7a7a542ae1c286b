"""CUDA for whole programs without a GPU: ``gpuemu run`` and ``gpuemu nvcc``.

A program is compiled by nvcc to PTX and linked with our library in place of NVIDIA's runtime. It runs in a child
process; its allocations, copies and launches are messages, which a device answers. The device does not know of
messages: other front ends of this process call the same parts.

The package owns what an emulated device is: the state of its memory, the order of work on its streams, the modules that
are loaded, and what is wrong with the use of them. It never changes what a launch does (that is the emulator's), never
reads a source, and never ends a process that it did not start.

- :mod:`.program`: one run of a program, with its child process, its limits and its end
- :mod:`.answers`: the table from requests to parts of the device
- :mod:`.device`: the device of a run, and the order in which observers see its launches
- :mod:`.observers`: what is done before and after each launch: repeats, recording, races, launches that are made again
- :mod:`.host`: what the host does with device memory: allocations, copies, library calls, accesses without a call
- :mod:`.findings`: the findings of a run
- :mod:`.launches`: modules, kernels, and the emulator's request for a launch
- :mod:`.memory`: device memory, its allocations, and which of their bytes are initialised
- :mod:`.stream_order`: which work has ended before other work begins
- :mod:`.call_sites`: lines of the program, from return addresses
- :mod:`.inline_sources`: lines of Python whose strings are sources
- :mod:`.marked_sources`: lines of Python that a written source names
- :mod:`.protocol`: the messages, declared once for both sides
- :mod:`.shim`: our library in C++
- :mod:`.python_boot`: what is done when a program in Python imports a package that launches kernels
- :mod:`.python_process`: what a process of Python has so that its packages use our library
- :mod:`.torch_device`: PyTorch's CUDA device on it, in the program's process
- :mod:`.triton_launches`: Triton's launches on that device
- :mod:`.cute_launches`: launches of CuTe DSL
- :mod:`.warp_launches`: launches of Warp
- :mod:`.tilelang_launches`: launches of TileLang
- :mod:`.toolchain`: nvcc's commands, and the library's compilation
- :mod:`.processes`: child processes that never outlive this one, and why a run is stopped
"""
