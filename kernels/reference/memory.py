"""fp64 references of the memory group."""

import numpy as np


def scale(inputs, **kwargs):
    return 3.0 * inputs["x"]


scale_rows = scale


def reverse(inputs, **kwargs):
    return inputs["x"][::-1]


def stencil(inputs, **kwargs):
    x = np.pad(inputs["x"], 1, mode="edge")
    return 0.25 * x[:-2] + 0.5 * x[1:-1] + 0.25 * x[2:]


def reverse_blocks(inputs, **kwargs):
    x = inputs["x"]
    return np.concatenate([x[base : base + 128][::-1] for base in range(0, x.size, 128)])


def block_sums(inputs, **kwargs):
    x = inputs["x"]
    return np.array([x[base : base + 256].sum() for base in range(0, x.size, 256)])


def row_sums(inputs, **kwargs):
    return inputs["x"].sum(axis=-1)


def _window_sum(x):
    padded = np.pad(x, 2)
    return sum(padded[k : k + x.size] for k in range(5))


def smooth(inputs, **kwargs):
    return _window_sum(inputs["x"])


def box(inputs, **kwargs):
    return _window_sum(inputs["x"])


def gather(inputs, **kwargs):
    table, index = inputs["table"], inputs["index"]
    return table[index] + table[(index + 1) % table.size]
