"""fp64 references of the index group."""

import numpy as np


def scale(inputs, **kwargs):
    return 3.0 * inputs["x"]


def transpose(inputs, **kwargs):
    return inputs["x"].T


def row_index(inputs, **kwargs):
    return inputs["x"][:, 0]


def circular(inputs, **kwargs):
    x = inputs["x"]
    return x - np.roll(x, 1)


def row_dot(inputs, **kwargs):
    return inputs["x"] @ inputs["w"]


def row_max(inputs, **kwargs):
    return np.fmax.reduce(inputs["x"], axis=-1)


def argmax(inputs, **kwargs):
    return inputs["x"].argmax(axis=-1)


def byte_sum(inputs, **kwargs):
    return inputs["x"].astype(np.int64).sum(axis=-1)


def row_sum(inputs, **kwargs):
    return inputs["x"].sum(axis=-1)


def bias_add(inputs, **kwargs):
    return inputs["x"] + inputs["bias"]


def hash_probe(inputs, **kwargs):
    product = inputs["keys"].astype(np.int64) * 2654435761 % 2**32
    return inputs["table"][product % inputs["table"].size]


def positive_sum(inputs, **kwargs):
    return np.maximum(inputs["x"], 0.0).sum(axis=-1)


def blur_rows(inputs, **kwargs):
    padded = np.pad(inputs["x"], ((0, 0), (1, 1)))
    counts = np.pad(np.ones_like(inputs["x"]), ((0, 0), (1, 1)))
    return sum(padded[:, k : k + inputs["x"].shape[1]] for k in range(3)) / sum(
        counts[:, k : k + inputs["x"].shape[1]] for k in range(3)
    )


def difference4(inputs, **kwargs):
    x = inputs["x"]
    y = np.zeros_like(x)
    y[: max(x.size - 4, 0)] = x[4:] - x[: max(x.size - 4, 0)]
    return y
