"""Device memory: what is allocated where, which bytes are initialised, and which accesses have not been waited for.

It owns that state, and never decides what is wrong: no finding is made here.

- :mod:`.device_memory`: the memory of one run
- :mod:`.allocations`: an allocation, and pending accesses to it
- :mod:`.byte_sets`: sets of bytes of an allocation
- :mod:`.library_words`: the words that the program's library sees too
"""
