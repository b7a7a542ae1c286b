"""Debugging of a recorded block: a position in time that moves forwards and backwards, and what is seen there.

``timeline``      steps of a thread by statements and instructions; ``frames`` its call stacks
``objects``       typed objects at a moment; ``names`` what the names of the source mean, ``views`` rows for a client
``syntax``        expressions of C; ``evaluate`` their values, ``templates`` messages with expressions
``breakpoints``   where an execution stops; ``watches`` data whose changes are looked up
``session``       the position and how it moves; ``console`` commands
``requests``      requests of the debug adapter protocol, with ``breakpoint_requests``, ``disassembly``, ``protocol``
"""
