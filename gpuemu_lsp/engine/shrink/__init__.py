"""Shrinker: from a failing case to the smallest and simplest case that fails in the same way.

It is built like Hypothesis' shrinker ("Designing Shrink Passes" in its ``conjecture/shrinker.py``): passes only
*propose* candidates, one search decides. The search knows neither the emulator nor the oracle; a predicate of the
caller runs a candidate and returns whether it fails in the same way. This page explains the invariants that every pass
relies on.


Failing in the same way
-----------------------
The caller's predicate accepts a candidate only if it breaks the same rule on the same source line as the original. Any
weaker condition lets the search slip from one bug to another (an index out of bounds shrinks to one element and becomes
an uninitialised read), and any stronger one, such as the same thread or the same wrong value, keeps cases large without
telling the user more. A candidate that runs much longer than the original counts as not failing, so that shrinking
a race does not end in a hang.


The order
---------
"Simpler" is a total preorder on cases (:func:`~.order.is_simpler`), compared lexicographically:

1. elements of all inputs and outputs, the sum of the dims, the dims by name;
2. tensors with an unusual memory layout, and the size of their gaps and offsets;
3. input elements that are not zero;
4. the complexity of their values: 0, 1, -1, small integers, larger ones, fractions, infinities, NaN.

A candidate replaces the best case if and only if it is simpler *and* fails. Two properties follow, and nothing else
ensures them:

* Termination. Dims are bounded below and elements have finitely many values, so there is no infinite sequence of ever
  simpler cases; the loop over the passes ends when a whole round replaces nothing.
* Any-time validity. The best case fails at every moment, so the search can be stopped after any run by its budget or by
  the caller, and the result is as good as the time allowed.

Failures are not assumed to be monotone in any size or value: a kernel with tiles of 32 fails at 33 and not at 64.
Bisection is therefore a heuristic that makes proposals, never an argument that skips them.


Passes
------
A pass is a generator. It yields a candidate and receives True if that candidate became the best case; it then continues
from that candidate. Passes may rely on these rules, and must keep them:

* A pass is deterministic: equal start, space and answers give equal proposals. All randomness comes from the seed of
  the case, which a stored case needs anyway to be rebuilt.
* It proposes legal cases only: sizes that the dims allow, values inside the declared ranges (:class:`ValueDomain`),
  undeclared integers inside the span that the fuzzer drew. An illegal case may fail for a reason of its own, and the
  search would prefer it, as it is usually simpler.
* It modifies no array in place. Candidates share arrays with the best case.
* It may propose a case that is not simpler, or one that was proposed before; the search rejects both without a run.
* Its number of proposals is bounded in terms of the case, so that every pass ends under any answers.

A case is stored as its seed, strategy and dims, plus the inputs that these do not reproduce. Each candidate carries the
names of those inputs (``changed``). Size passes prefer candidates without any, as long as the current case has none.

The passes in the order in which strategy ``all`` runs them:

==========================  =====================================================================================
``simplify_layout``         the same values with fewer gaps, offsets and aliases
``shrink_dims_jointly``     many dims at their minimum at once (delta debugging on the set of dims)
``crop_dims``               pieces cut off the front or end of one dim, all values kept
``shrink_dims``             one dim: small sizes around powers of two, then bisection; pairs; one grows, one shrinks
``clear_slices``            rows and columns from the front set to the simplest value
``crop_dims``               again: the cleared slices can now be cut off
``redraw_values``           the smallest sizes with values of other classes
``magnify_values``          one dim smaller with the largest value in all elements
``simplify_inputs``         whole inputs rewritten: constants, signs, small integers
``simplify_elements``       single elements set to zero in groups, the last few to simple values
``redraw_exhaustively``     one dim smaller by one step with many more draws
==========================  =====================================================================================

Why this order
    A launch of a smaller case is faster, so passes that shrink sizes come first, and those that remove the most per run
    before those that remove single steps. Layouts precede sizes because a layout that matters couples sizes to gaps.
    Value passes cost a run per group of elements and come when few elements are left.

Passes that move
    ``redraw_values`` and ``magnify_values`` find a *different* way to the same failure. After they succeed, sizes that
    could not shrink with the old values may shrink with the new ones, so the round starts again at once instead of
    spending runs on values that will be cut off.

Passes that prepare
    ``clear_slices`` makes a case simpler in a way that only ``crop_dims`` after it can exploit. Its success alone does
    not start another round; otherwise two passes that undo nothing for each other would cost a round each time.


Budget
------
:class:`ShrinkBudget` limits runs of the predicate and wall time; every run is counted, including the first, which
verifies that the case fails at all. Inputs that did not fail are remembered by a digest of sizes, layout and values and
are not run again: passes overlap on purpose. Inputs that failed need no memory, as they became the best case or were
not simpler than it.


What a pass cannot do
---------------------
Shrinking is a local search. It can end at a case from which no single proposal leads on although a smaller failing case
exists. Two measures keep results independent of the case it started from: redrawing, which tries the smallest sizes
with values unrelated to the original, and golden minima of all planted bugs, which
``python -m benchmarks.shrinking`` compares with the results of many seeds.


References
----------
A. Zeller, R. Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE TSE 28(2), 2002 (delta debugging).
D. R. MacIver, A. F. Donaldson, Test-Case Reduction via Test-Case Generation, ECOOP 2020 (Hypothesis).
"""

from gpuemu_lsp.engine.shrink.model import CaseSpace, Improvement, ShrinkBudget, ShrinkResult, ValueDomain
from gpuemu_lsp.engine.shrink.search import STRATEGIES, improvements, minimise
from gpuemu_lsp.engine.shrink.space import space_of

__all__ = [
    "STRATEGIES",
    "CaseSpace",
    "Improvement",
    "ShrinkBudget",
    "ShrinkResult",
    "ValueDomain",
    "improvements",
    "minimise",
    "space_of",
]
