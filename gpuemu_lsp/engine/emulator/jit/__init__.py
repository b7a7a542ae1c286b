"""Just-in-time compilation: LLVM IR to object code, loading it into this process, and caching it on disk."""
