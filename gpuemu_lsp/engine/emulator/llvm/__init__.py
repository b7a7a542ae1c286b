"""Helpers for writing LLVM IR with llvmlite."""
