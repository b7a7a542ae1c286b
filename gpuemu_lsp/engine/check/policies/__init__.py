"""Policies: the conditions under which a finding may be claimed, and with which severity.

Each module is about one reason why something a check observed need not be a mistake of the user's code.

=========================  ==============================================================================
``confirm_unoptimized``    the optimiser, not the source, makes the access
``guessed_launch``         sizes, values and roles of the arguments are guesses
``index_overflow``         the overflow needs sizes that no case can have, but that are declared
``missing_headers``        the compile error follows from a header that was not found, or from NVRTC's limits
``newer_architecture``     the code is written for an architecture newer than the default
``read_launch``            the launch is read from the program, whose sizes are not all known
``unregistered``           no gpuemu.toml mentions the kernel
``vacuous_reference``      a pass proves nothing, as the reference returns one value for all inputs
=========================  ==============================================================================
"""
