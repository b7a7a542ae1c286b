"""Code generation: a PTX program becomes one LLVM function that executes a warp as SIMD vectors.

``i32 warp(ptr context)`` executes the warp with the given context until all lanes have exited or the warp must wait;
the result is a ``Status`` for the block scheduler. One function per program, with everything inlined, is what lets LLVM
keep registers of the kernel in registers of the host.

**Lanes, parts, shapes.** A warp of 32 lanes is executed as ``parts`` native vectors of ``lanes`` elements (2 x 16 with
AVX-512, 4 x 8 with AVX2); a *part*, LLVM's term for the vectors of one unrolled and vectorised value, is one of them. A
register that is *uniform* is one scalar for the warp. One that is *affine* (``base + lane * step``, such as ``%tid.x``
and every index and address computed from it) is a scalar base, too; only *varying* registers are vectors. Shapes come
from :mod:`~gpuemu_lsp.engine.emulator.analysis.divergence`. Affine addresses are also what makes a load contiguous.

**Masks.** Basic blocks execute under the *block mask*, the lanes that are at this block. With the guard of an
instruction (``@%p``) it is the *active mask*. Where the analysis shows that all 32 lanes are present, it is a constant
and folds away. Inactive lanes compute, too, except that they do not access memory, fault, or overwrite registers that
a lane waiting elsewhere still needs: that is a ``select`` with the old value, where a masked store would keep the
register in memory.

**Divergence.** A branch that may diverge first tests whether it does: if all lanes agree, the function simply
branches. Otherwise each lane's target is stored as its program counter, and the *dispatcher* executes the lanes at the
lowest block; an edge compares its target with the lowest block at which others wait, and goes back to the dispatcher
there. That this reconverges lanes at the immediate post-dominator is a matter of block numbering, explained in
:mod:`~gpuemu_lsp.engine.emulator.analysis.cfg`. The *scalar-PC version* of a program makes no such assumption: every
register is varying, edges lead to the dispatcher, and groups of lanes take turns, as independent thread scheduling
guarantees since Volta. It takes over warps that stay divergent for too long, and programs that block order cannot
reconverge. Optimised code may *speculate* that a loop branch is uniform; a warp for which it is not continues in the
*fallback*, without speculation (:mod:`~gpuemu_lsp.engine.emulator.versions`).

**Suspension.** At a barrier, or when its quantum of backward jumps is used up, a warp saves the registers that are live
there in its context and returns. ``Warp.RESUME`` makes the entry block branch to the block where it continues. All
versions use the same offsets, so that a warp can be resumed by another version than the one that suspended it.

**Memory.** A load or store has one of four forms, by the shape of its address: scalar, contiguous vector, strided
vector, gather or scatter. Every byte has a shadow byte; the check of a form loads the shadow bytes of all lanes in the
same form and merges range, alignment and initialisation into one rare branch. Loads from buffers that are readable as a
whole skip the shadow; loads at constant offsets from one register share a check. The rare branch leads to the device
library (:mod:`~gpuemu_lsp.engine.emulator.devicelib`), which repeats the access lane by lane and reports what is wrong.

As an example, ``if (i < n) y[i] = x[i] + 1.0f``, for blocks of full warps, after optimisation (abridged; AVX-512)::

    entry:
      %i    = add i32 %block_times_size, %tid0             ; affine: the index of lane 0, step 1
      %i_0  = add <16 x i32> splat(%i), <0, 1, ..., 15>    ; only the comparison needs vectors, one per part
      %i_1  = add <16 x i32> splat(%i + 16), <0, 1, ..., 15>
      %ge_0 = icmp sge <16 x i32> %i_0, splat(%n)          ; @%p1 bra exit: varying, one side exits
      %ge_1 = icmp sge <16 x i32> %i_1, splat(%n)
      %mask = xor i32 %packed_ge, -1                       ; the remaining lanes; no dispatcher is needed
      br (%mask == 0), %done, %widen
    widen:                                                 ; mul.wide.s32: i does not wrap over the warp, or
      br (sext(%i) + 31 == sext(%i + 31)), %load, %assume  ;   the launch starts again with i varying
    load:
      %p    = add i64 %x, %offset                          ; affine address with the stride of the element
      %o    = fshr(%p - %buffer, 2)                        ; is [p, p + 128) inside the buffer, and p aligned?
      br (%o <= %last), %fast, %shadow
    shadow:                                                ; else its shadow bytes decide, 4 per lane
      %q    = select i1 %near, i64 %p, i64 %unmapped
      %s_0  = load <16 x i32>, ptr %q + 2^30
      ...                                                  ; & 0x03030303 == 0x03030303, in active lanes
      br %allowed, %fast, %slow
    slow:                                                  ; the device library reports, and loads what it can
      call @gpuemu_affine_addresses(...)
      call @gpuemu_load(ptr %context, i32 %site, i32 %mask, ...)
    fast:
      %v_0  = load <16 x float>, ptr %p                    ; not masked: the bytes are mapped
      %v_1  = load <16 x float>, ptr %p + 64
      ...                                                  ; fadd, and the check of the store
      masked.store(<16 x i32> %r_0, ptr %y_i, %m_0)        ; the data, and "initialised, written" as shadow
      masked.store(splat(0x07070707), ptr %y_i + 2^30, %m_0)

Layers: :mod:`.translate` walks the program; :mod:`.instructions` writes one family of instructions per module, with
what :mod:`.core` provides. By convention ``e`` is the :class:`~.core.emitter.Emitter`, ``b`` its LLVM builder, and
``t`` the module :mod:`~gpuemu_lsp.engine.emulator.llvm.ir_tools`.
"""
