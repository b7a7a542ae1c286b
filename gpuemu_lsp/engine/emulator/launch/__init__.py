"""One launch on the host: memory, arguments, scheduling, vector clocks, events, counters."""
