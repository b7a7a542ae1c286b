"""LLVM IR to machine code in this process, and the cache of machine code on disk."""
