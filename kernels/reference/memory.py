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


def scale_reversed(inputs, **kwargs):
    return 3.0 * inputs["x"][::-1]


def mirrored_products(inputs, **kwargs):
    size = inputs["x"].size
    products = np.zeros(-(-size // 128) * 128)
    products[:size] = inputs["x"] * inputs["w"]
    blocks = products.reshape(-1, 128)
    return (blocks + blocks[:, ::-1]).reshape(-1)[:size]


def most_frequent(inputs, **kwargs):
    return (inputs["x"][:, :, None] == np.arange(9)).sum(axis=1).max(axis=-1)


def levels(inputs, **kwargs):
    table = np.array([0.0, 0.5, 1.0, 2.0, 4.0, 8.0])
    return table[inputs["x"]] + table[np.minimum(inputs["x"] + 1, 5)]


def reverse_halves(inputs, **kwargs):
    return {"half": 0.5 * inputs["x"], "y": 0.5 * inputs["x"][::-1]}
