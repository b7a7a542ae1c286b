"""Check of one kernel: compiles it, runs its cases, compares and reports. Runs in a worker and streams findings."""
