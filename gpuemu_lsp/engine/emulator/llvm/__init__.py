"""LLVM IR with llvmlite: byte-offset loads and stores, intrinsics, lane loops, and a builder that writes text."""
