"""Policies: rules about rules, such as which optimisation level a finding must be seen at.

Each module is about one reason why something a check observed need not be a mistake of the user's code. What a finding
may claim on assumed sizes, values and extents is decided in :mod:`gpuemu_lsp.engine.check.claims`, and nowhere here.

=========================  ==============================================================================
``autotuned_launches``     an autotuner runs a kernel that changes what it computes from
``confirm_unoptimized``    the optimiser, not the source, makes the access
``declared_sizes``         no case had a size that gpuemu.toml declares
``grid_limits``            declared sizes need a grid that no device launches
``index_overflow``         the overflow needs sizes that no case can have, but that are declared
``unknown_suppressions``   a comment suppresses a rule that does not exist
``unregistered_time``      an unregistered kernel has less time
``vacuous_reference``      a pass proves nothing, as the reference returns one value for all inputs
=========================  ==============================================================================
"""
