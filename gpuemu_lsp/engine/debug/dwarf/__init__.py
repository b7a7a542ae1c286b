"""DWARF of unoptimised PTX: the variables in scope at a line of the PTX, their types, and where their values are."""
