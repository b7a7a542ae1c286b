"""PTX instructions as LLVM IR, one family per module.

A family is a pair: ``supported(instruction)``, asked before translation, and a function that writes the instruction.
"""
