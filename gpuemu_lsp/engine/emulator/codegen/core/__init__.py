"""The core of code generation: function, masks, registers and operands; dispatch; memory access forms; instrumentation.

The emitter is built in layers, each a class derived from the one below: the function (:mod:`.warp_function`), lane
masks (:mod:`.masks`), the register file (:mod:`.registers`), operands (:mod:`.emitter`). :mod:`.suspend` leaves the
function and :mod:`.dispatch` enters it. A memory access is decoded in :mod:`.addresses` and executed by a form of
:mod:`.access_forms`, :mod:`.contiguous` or :mod:`.gather_scatter`, or by the device library (:mod:`.library_access`).

Access forms share :mod:`.load_groups` (one check for several loads) and :mod:`.lane_vectors` (16 bytes per lane).
:mod:`.race_calls`, :mod:`.claims` and :mod:`.instrumentation` add the race detector's calls, claims of memory,
coverage, counters and traces, :mod:`.run_recorder` writes the results of all instructions, as
:mod:`.recording_layout` says. :mod:`.member_mask` are the masks of warp collectives, :mod:`.special_registers` and
:mod:`.register_types` the registers' values and LLVM types. :mod:`.translation_unit` holds a program with its analyses
and the assumptions of its translation.
"""
