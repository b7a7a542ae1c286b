"""fp64 references of image and grid operations."""

import numpy as np


def _patches(x):
    padded = np.pad(x, 1)
    height, width = x.shape
    return np.stack([padded[i : i + height, j : j + width] for i in range(3) for j in range(3)])


def conv3x3(inputs, **kwargs):
    return np.tensordot(inputs["w"].reshape(9), _patches(inputs["x"]), axes=1)


def im2col(inputs, **kwargs):
    return _patches(inputs["x"])


def max_pool(inputs, **kwargs):
    x = inputs["x"]
    height, width = x.shape
    padded = np.pad(x, ((0, height % 2), (0, width % 2)), constant_values=-np.inf)
    return padded.reshape((height + 1) // 2, 2, (width + 1) // 2, 2).max(axis=(1, 3))


def upsample(inputs, **kwargs):
    x = inputs["x"]
    padded = np.pad(x, ((0, 0), (1, 1)), mode="edge")
    left, right = 0.75 * x + 0.25 * padded[:, :-2], 0.75 * x + 0.25 * padded[:, 2:]
    return np.stack([left, right], axis=-1).reshape(x.shape[0], -1)


def heat(inputs, **kwargs):
    x = inputs["x"]
    y = x.copy()
    inner = x[1:-1, 1:-1]
    around = x[1:-1, :-2] + x[1:-1, 2:] + x[:-2, 1:-1] + x[2:, 1:-1]
    y[1:-1, 1:-1] = inner + 0.2 * (around - 4.0 * inner)
    return y


def depth_difference(inputs, **kwargs):
    x = inputs["x"]
    return np.concatenate([x[1:], np.zeros_like(x[:1])]) - x
