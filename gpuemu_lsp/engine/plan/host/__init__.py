"""Host code of CUDA programs, read as a program.

An abstract interpretation of the host functions that lead to a launch. Its result is, for each launch, the grid, the
block, the shared memory and the arguments as integers over the program's symbols, and for each pointer the allocation
behind it: its size, whether the host has initialised it, and with integers of which range.

- :mod:`.syntax` parses the files with tree-sitter, as the preprocessor leaves them, and lists their functions.
- Integers are those of :mod:`gpuemu_lsp.engine.symbolic`; :mod:`.values` has the other values, and the memory.
- :mod:`.machine` is the state: variables, memory, the conditions of the path. :mod:`.statements`, :mod:`.expressions`,
  :mod:`.objects` and :mod:`.calls` interpret; :mod:`.libraries` has the functions of CUDA, C, thrust and PyTorch,
  :mod:`.lookup` the members of classes and the functions that a program selects among several.
- :mod:`.program` finds the functions to start from: ``main``, and functions that no other one calls;
  :mod:`.units` other files of the project that call the functions of a file.
- :mod:`.reading` chooses the launches of a kernel. Where the constants of a program are too large to emulate, those
  that device code does not use become symbols, and smaller sizes take their place.
- :mod:`.preference` orders the launches, and :mod:`.plans` makes the plan of a kernel from one launch.

Nothing is executed: an operation that is not known has a value that is not known, and a function that is not known may
have written to all memory that it was passed.
"""
