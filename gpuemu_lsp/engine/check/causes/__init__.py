"""Causes and consequences: of the findings of one case, which error follows from which.

One mistake often breaks several rules: without a barrier a load is a race, reads memory that is not initialised yet,
and the output is wrong. The finding to fix is the first in this order; the others are its ``consequences``:

1. the kernel does not compile: nothing else is known;
2. an access or a synchronisation is wrong: race, uninitialised read, out of bounds, misaligned, divergent barrier,
   deadlock, hang, in the order in which they occur. After a fault the launch ends, and no numbers follow from it;
3. the numbers are wrong: tolerance, NaN, infinity, unwritten output, invariant.

The order alone decides nothing. An error is a consequence only if a second launch of the case, in which the cause has
no effect, shows it (:mod:`~gpuemu_lsp.engine.check.causes.counterfactual`). That is the counterfactual definition of a
cause (Lewis, "Causation", 1973), which delta debugging applies to programs (Zeller, "Isolating cause-effect chains from
computer programs", FSE 2002):

Race
    The two accesses are ordered: by a barrier before either of them, or by executing blocks and warps from the last to
    the first. If no race and no uninitialised read is left in one of these launches, its numbers decide: an element
    that is right there is a consequence, one that is wrong there is not. Else an element that is right in one of them
    is wrong only because of the order, and one that merely changes is a consequence if the same output has been right
    in another case: a mistake in the arithmetic may be hidden behind the race. An element stored by the racing store
    itself is judged likewise: lanes of a warp that update one location have no order in which none is lost.
Uninitialised read
    The launch runs again with other contents of uninitialised memory. An element that is right with one of them, or
    that changes with the contents, has no defined value: it is a consequence, as in MemorySanitizer, which poisons
    values that depend on uninitialised memory.
Uninitialised read and race
    Where a barrier before the racing access makes the uninitialised read disappear, the memory is initialised, only too
    late: the race is the cause.

Divergent barriers and race
    Likewise, where the racing access reads what decides which barrier a thread comes to.
Several events of one mistake
    Where a launch shows by itself that an event repeats another one, none is made again:
    :mod:`gpuemu_lsp.engine.same_mistake`.

Elements that are wrong in every launch with the same value are not affected by the cause. They remain a finding of
their own, as does every mismatch of a case in which the cause does not occur, and every error whose cause a comment
suppresses: when in doubt both are shown.

Modules: :mod:`.consequences` applies these definitions to the errors of one launch, :mod:`.counterfactual` makes the
further launches, :mod:`.discarded_reads` finds uninitialised reads whose values the kernel discards, and
:mod:`.attribution` returns the findings of a launch, each with its consequences.
"""
