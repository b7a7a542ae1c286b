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
