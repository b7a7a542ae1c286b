"""Test cases: sizes, memory layouts and values, all drawn from 64-bit seeds.

A case is made in four stages. :mod:`.strategies` chooses a recipe: a size class, a value distribution and a layout.
:mod:`.size_classes` draws the dims, near the tile and block sizes of the launch. :mod:`.geometry` evaluates the plan
for them: shapes, strides, grid, block and shared memory; sizes that no device can launch are drawn again.
:mod:`.values` draws the inputs. :mod:`.pack` then turns the case into the argument bytes of an executor.

Seeds are derived by label (BLAKE2b-64 of the parent's seed and the label, :func:`.rng.derive_seed`)::

    master seed -- "iter_<i>" --> seed of case i, which is the case id that users see
    case seed   -- "shape"    --> dims ("attempt_<k>": after k draws that could not be launched)
                -- "layout"   --> strides, offsets and aliases, one label per tensor
                -- "data" -- "input_<k>" --> values of the k-th input

A derived seed depends on the parent's seed and the label only, never on how many numbers were drawn before. So the
values of an input do not depend on the number of other inputs or on attempts at sizes, and a case can be drawn alone.

Guarantee: ``rebuild(plan, case.key)`` returns the case bit for bit, on every machine and in later versions. The
generator is integer arithmetic modulo 2**64; floats are made from 53 bits by exact operations and rounded to nearest
once, into their dtype. The key contains the seed, the recipe and the dims drawn, so that a constant added to the source
(which changes the size classes) does not change stored cases. The stream and the ``uniform`` distribution are those of
the original ``gpuemu``; ``tests/unit/fuzz/test_rng.py`` has its vectors. A change of an existing distribution or label
breaks every stored failure: add a new one instead.

Other modules: :mod:`.cases` (the cases of a plan, and one from its key), :mod:`.model` (its records),
:mod:`.recorded` (cases of recorded launches), :mod:`.variants` (cases of a Triton kernel that share code),
:mod:`.integers` (values of integers and booleans), :mod:`.dtypes`, and :mod:`.rng` with :mod:`.jump_ahead` (the
generator, and long parts of its stream in parallel).
"""

from gpuemu_lsp.engine.fuzz.cases import cases, rebuild, special_slots
from gpuemu_lsp.engine.fuzz.pack import pack_arguments

__all__ = ["cases", "pack_arguments", "rebuild", "special_slots"]
