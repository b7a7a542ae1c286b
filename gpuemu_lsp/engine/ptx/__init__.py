"""PTX text to a typed program: one parser for lint, emulator and diff. Knows nothing of CUDA C++."""
