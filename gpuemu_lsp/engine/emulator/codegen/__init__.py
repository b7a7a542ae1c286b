"""From a program to LLVM IR: one function that runs a warp until it ends or has to wait."""
