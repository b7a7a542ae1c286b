"""Versions of a kernel's machine code, the tiers they are compiled in, and the changes between them.

Four versions
=============

A kernel is compiled for the shape of its thread blocks, from the most to the least constrained:

*Specialised.* The divergence analysis proves registers uniform or affine and branches uniform for this block shape. All
lanes of a warp share one program counter between reconvergence points. This is the version a launch starts in.

*Speculative.* Specialised further by profile: branches at which the lanes of most warps were seen to stay converged are
taken to be uniform, although the analysis cannot prove it. Most strided loops have one: lanes leave
``for (i = t; i < n; i += blockDim.x)`` in different iterations only in the last warp. Values in such a loop then stay
affine, and accesses stay vector loads. Each speculated branch is tested; a warp that diverges there leaves the version.

*Fallback.* The specialised version without the speculation, in baseline code. It exists next to a speculative version
only, and takes over the warps that diverge at a speculated branch.

*Scalar-PC.* Assumes nothing: every register varies, and each lane has its own program counter. It runs warps whose
lanes must advance independently, such as those that wait for each other inside a branch (independent thread scheduling,
CUDA programming guide), recursive kernels, and kernels whose control flow has no reconvergence points to order.

All versions save a warp's registers in the same places of its context (``abi.structs.Warp``), so that a warp
can suspend in one and continue in another. Results are the same bit for bit in all of them.

Two tiers
=========

The *baseline tier* is compiled without optimisation: registers stay in memory, and most accesses are calls of the
device library. It compiles faster and runs at about half the speed. Most kernels run for milliseconds and are then
edited, so that optimisation would not pay. The *optimised tier* is compiled when a kernel is hot: the time that it has
spent in baseline code, or is expected to, exceeds twice the time to compile it.

Neither tier contracts or reorders floating-point arithmetic.

Transitions
===========

::

                     first launch
                          |
                          v
                +-------------------+   DIVERGED      +--------------------+
                | specialised,      |---------------->| scalar-PC,         |
                | baseline          |  (one warp)     | baseline           |
                +-------------------+                 +--------------------+
                   |             |                       |
      hot, between |             | hot, in the middle    | hot
      blocks       |             | of a block            |
                   v             v                       v
     +-----------------+   +-------------+  DIVERGED  +--------------------+
     | speculative,    |   | specialised,|----------->| scalar-PC,         |
     | optimised       |   | optimised   | (one warp) | optimised          |
     +-----------------+   +-------------+            +--------------------+
        |           |            ^                       ^
        | MISSPECU- |            | misspeculates often,  |
        | LATED     +------------+ after the launch      |
        v (one warp)                                     |
     +-----------------+            DIVERGED (one warp)  |
     | fallback,       |---------------------------------+
     | baseline        |
     +-----------------+

=====================  ============================================  =================================================
transition             trigger                                       carried out by
=====================  ============================================  =================================================
hot                    expected time exceeds twice the compile time  :meth:`.tiering.LaunchVersions.promote`, at the end
                                                                     of a run of blocks or when a block yields
hot, next launch       time of ended launches exceeds it             :meth:`.tiering.LaunchVersions.end_launch`
speculation decided    divergence counts of the launches so far      :class:`.convergence_profile.ConvergenceProfile`
``MISSPECULATED``      a speculated branch diverges                  ``run_blocks`` in generated code, for that warp
misspeculates often    more than one warp in four did                :meth:`.tiering.LaunchVersions.end_launch`
``DIVERGED``           divergent for too long, or lanes wait singly  ``launch.scheduler``, for that warp
``ASSUMPTION_FAILED``  an affine 32-bit index wraps where it is      ``executor.Emulator`` starts the launch
                       widened to 64 bits                            again; the register is then varying
barriers differ        threads wait at different barriers, although  the same; the race detector then assumes nothing
                       races were excluded by full barriers          about barriers
=====================  ============================================  =================================================

"Hot, between blocks" leads to the specialised version if there is nothing to speculate on. A warp never returns from
the fallback or the scalar-PC version. Promotion in the middle of a block cannot enter a speculative version: its
suspended warps are in states that the speculation may exclude.

Machine code is found by content, not by version: :mod:`.cache_key` describes a translation unit as text, equal for
units that translate to equal code, and the disk cache stores objects under a digest of it.

Modules: ``compiled_kernel`` (a kernel, analysed once and compiled per version), ``tiering`` (which code a launch runs),
``kernel_cache`` and ``code_cache`` (parsed modules and machine code; ``cache_key`` identifies the latter),
``convergence_profile`` (branches that first launches show to be uniform), ``restarts`` (proof that a launch does not
start again), ``stores`` (pointers through which a kernel writes), ``race_facts`` (how a race is reported).
"""
