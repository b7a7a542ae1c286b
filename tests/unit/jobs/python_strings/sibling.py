"""A constant of a sibling module, which is read and not imported."""

import cupy as cp
from sources_of_sibling import COPY

copy = cp.RawKernel(COPY, "copy")
