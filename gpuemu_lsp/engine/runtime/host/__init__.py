"""What the host does with device memory: by calls, and by accesses to memory that it shares with the device.

Each call begins an operation in its stream, says which bytes it reads and writes, and gets its findings from
:mod:`.call_accesses`. The package never makes a launch, and copies no bytes: the caller does, who has the same memory.

- :mod:`.call_accesses`: ranges, order and initialised bytes of the accesses of any call
- :mod:`.allocator`: allocations and frees
- :mod:`.copies`: copies and fills
- :mod:`.operators`: operators of a framework, which the program executes
- :mod:`.products`: products of matrices, as cuBLAS defines them
- :mod:`.tensor_maps`: tensor maps, as the driver encodes them
- :mod:`.shared_memory`: accesses without a call, before the host has waited
"""
