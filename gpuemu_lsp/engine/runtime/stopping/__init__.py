"""Why and how a run ends before its program does: interrupts, the program's end, and lack of memory."""
