"""LLVM IR of single PTX instructions, one family per module."""
