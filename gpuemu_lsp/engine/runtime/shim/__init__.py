"""Source of the C++ library that programs are linked with; compiled on first use."""
