"""Child processes that never outlive this one, and why a run ends before its program does.

It never ends a process that it did not start, or that does not descend from one.

- :mod:`.supervised`: starts a command under a supervisor
- :mod:`.supervisor`: the script that ends all that descends from the command
- :mod:`.run_stop`: interrupts, and the program's end during a launch
- :mod:`.memory_watch`: stops a run before the machine has no memory left
"""
