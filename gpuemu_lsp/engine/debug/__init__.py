"""Recordings of a block as a database: what a thread executed, what memory and variables held, where a value is from.

``history``       registers at a moment; ``accesses`` loads, stores and memory at a moment; ``statements`` of a thread
``dwarf``         variables of unoptimised code; ``variables`` their values, ``memory_names`` those of elements
``dependences``   on what an instruction depended; ``slices`` the statements on which a moment depends
``explain``       chains of statements with values; ``explanation`` the records, which need no NumPy
"""
