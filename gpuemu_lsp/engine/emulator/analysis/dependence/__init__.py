"""Dependence: the sources that decide what a kernel does.

One labelled taint analysis per kernel, cached by its PTX. It answers whatever is asked about the values of parameters,
the contents of memory, the number of blocks and their size; it never says which of them a caller knows, and makes no
claim about findings.

=========================  ==========================================================================================
module                     holds
=========================  ==========================================================================================
``sources``                the sources, and which of them an instruction reads
``control``                the blocks that a branch decides to execute
``taint``                  the flow of sources to registers and blocks: of values, outcomes of comparisons, execution
``stored``                 what a kernel stores in memory, as the sources of what it loads from there
``kernel``                 :func:`~.kernel.dependences`: what decides about each access, barrier and collective
``loops``                  what decides whether loops end
``compared``               parameters whose loaded values are only compared and computed with, or tested for NaN
``neighbouring_elements``  parameters of which neighbouring elements bound loops, or are compared
``chosen_elements``        parameters of which integers in memory choose the elements
=========================  ==========================================================================================
"""
