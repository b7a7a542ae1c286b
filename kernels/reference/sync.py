"""fp64 references of the sync group."""

import numpy as np


def scale(inputs, **kwargs):
    return 3.0 * inputs["x"]


def reverse_blocks(inputs, **kwargs):
    x = inputs["x"]
    return np.concatenate([x[base : base + 128][::-1] for base in range(0, x.size, 128)])


def log2(inputs, **kwargs):
    return np.array([int(v).bit_length() for v in inputs["x"]], dtype=np.int64)


def total(inputs, **kwargs):
    return {"total": inputs["total"] + inputs["x"].sum(keepdims=True), "lock": inputs["lock"]}


def tile_sums(inputs, **kwargs):
    x = inputs["x"]
    padded = np.zeros(-(-x.size // 64) * 64)
    padded[: x.size] = x
    return padded.reshape(-1, 64).sum(axis=0)[::-1]


def center(inputs, **kwargs):
    return inputs["x"] - inputs["x"][0]


def scan(inputs, **kwargs):
    return np.cumsum(inputs["x"])


def row_sum32(inputs, **kwargs):
    return inputs["x"].sum(axis=-1)


def row_sum_n(inputs, **kwargs):
    return inputs["x"].sum(axis=-1)


def histogram(inputs, **kwargs):
    return inputs["y"] + np.bincount(inputs["x"], minlength=16)


def relay(inputs, **kwargs):
    x = inputs["x"].astype(np.int64)
    return {"total": inputs["total"] + x.sum(keepdims=True), "done": np.ones(-(-x.size // 32), dtype=np.int64)}


def reverse_tiles(inputs, **kwargs):
    x = inputs["x"]
    return np.concatenate([x[base : base + 64][::-1] for base in range(0, x.size, 64)])


def sums_of_32(inputs, **kwargs):
    x = inputs["x"]
    return np.array([x[base : base + 32].sum() for base in range(0, x.size, 32)])


def segment_sum(inputs, **kwargs):
    y = inputs["y"].astype(np.int64)
    np.add.at(y, inputs["segment"], inputs["x"].astype(np.int64))
    return y
