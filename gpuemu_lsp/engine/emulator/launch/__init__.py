"""One launch: memory and arguments, scheduling, vector clocks, events, counters and coverage.

:mod:`.setup` lays out memory (:mod:`.arena`, :mod:`.arguments`) and fills the records of :mod:`.state`;
:mod:`.scheduler` runs the blocks and describes how scheduling is divided between generated code and Python;
:mod:`.events`, :mod:`.counters` and :mod:`.coverage` turn what generated code has recorded into results.
"""
