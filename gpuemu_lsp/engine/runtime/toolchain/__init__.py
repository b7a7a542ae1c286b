"""nvcc from this environment's packages, for programs that are linked with our runtime library.

It never loads a program or a device: ``gpuemu nvcc`` runs once for each source of a build.

- :mod:`.nvcc`: commands of nvcc
- :mod:`.separate_compilation`: device code that is linked when the program runs
- :mod:`.architectures`: the architecture that a program is compiled for
- :mod:`.library`: our library, compiled once, in a folder that stands for NVIDIA's toolkit
- :mod:`.torch_library`: the CUDA device of PyTorch, compiled once for the user's PyTorch
- :mod:`.warp_library`: the part of Warp's library that calls CUDA, compiled once
- :mod:`.host_compiler`: the C++ compiler that builds both
- :mod:`.extension_objects`: sources of PyTorch's extensions, compiled in parts and kept
- :mod:`.compile_command`: the files and options of a command that compiles one source
- :mod:`.local_headers`: a source with the headers of its own project
- :mod:`.split_source`: the two parts of a CUDA source, for the host and for the device
- :mod:`.split_compile`: their compilation, and the object of both
- :mod:`.certain_errors`: errors of one part that the whole source has too
- :mod:`.light_headers`: headers with what a source needs of PyTorch's
- :mod:`.precompiled_headers`: these, compiled ahead for many sources
- :mod:`.object_cache`: objects by content
- :mod:`.wheels`: where nvcc is
"""
