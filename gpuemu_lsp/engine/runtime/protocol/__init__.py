"""What a program's runtime library and this process say to each other, declared once in Python.

It owns the arguments of calls, the messages and their bytes, and the C++ header that the library is compiled with. It
does not act on a message, imports nothing of the device, and nothing heavy: ``gpuemu nvcc`` imports it for each source.

- :mod:`.records`: how a record is declared, read and written
- :mod:`.calls`: the arguments of calls, as the device takes them
- :mod:`.messages`: requests and answers, with the arguments of calls in them
- :mod:`.cpp`: the header of the library's side
- :mod:`.connection`: messages on a socket
"""
