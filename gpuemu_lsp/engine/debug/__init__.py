"""Recordings of a block as a database: what a thread executed, what memory and variables held, where a value is from.

``history``       registers at a moment; ``statements`` of a thread; ``accesses`` and ``copies`` memory at a moment
``access_table``  rows of accesses; ``external_writes`` those that are not recorded, by what the block reads
``dwarf``         variables of unoptimised code; ``variables`` their values, ``memory_names`` those of elements
``dependences``   on what an instruction depended; ``slices`` the statements on which a moment depends
``instance_cache`` results that end with their object
``source_lines``  the text of lines
``explain``       chains of statements with values; ``explanation`` the records, which need no NumPy
"""
