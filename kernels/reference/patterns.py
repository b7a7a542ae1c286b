"""fp64 references of common parallel patterns: sums, scans, filters, sorts, selections."""

import numpy as np


def flip_tiles(inputs, **kwargs):
    x = inputs["x"]
    return np.concatenate([x[top : top + 16][::-1] for top in range(0, x.shape[0], 16)])


def suffix_sums(inputs, **kwargs):
    return np.cumsum(inputs["x"][:, ::-1], axis=-1)[:, ::-1]


def total(inputs, **kwargs):
    return inputs["total"] + inputs["x"].sum(keepdims=True)


def largest(inputs, **kwargs):
    return np.maximum(inputs["top"], inputs["x"].max(keepdims=True))


def _chunks(x, size):
    padded = np.zeros(-(-x.size // size) * size, dtype=x.dtype)
    padded[: x.size] = x
    return padded.reshape(-1, size)


def chained_scan(inputs, **kwargs):
    x = inputs["x"].astype(np.int64)
    totals = np.cumsum(_chunks(x, 64).sum(axis=-1))
    return {
        "y": np.cumsum(x),
        "ticket": np.array([totals.size]),
        "totals": totals,
        "ready": np.ones(totals.size, dtype=np.int64),
    }


def sums_and_counts(inputs, **kwargs):
    blocks = _chunks(inputs["x"], 64)
    return {"y": blocks.sum(axis=-1), "counts": (blocks > 1.0).sum(axis=-1)}


def partial_and_total(inputs, **kwargs):
    partial = _chunks(inputs["x"], 128).sum(axis=-1)
    return {"partial": partial, "total": partial.sum(keepdims=True), "finished": np.zeros(1, dtype=np.int64)}


def filter7(inputs, **kwargs):
    x = np.pad(inputs["x"], 3)
    taps = np.array([1.0, 3.5, 7.0, 9.0, 7.0, 3.5, 1.0]) / 32.0
    return sum(tap * x[k : k + x.size - 6] for k, tap in enumerate(taps))


def median9(inputs, **kwargs):
    x = np.pad(inputs["x"], 4, mode="edge")
    return np.median(np.stack([x[k : k + x.size - 8] for k in range(9)]), axis=0)


def permute(inputs, **kwargs):
    return inputs["x"].transpose(2, 0, 1)


def embedding(inputs, **kwargs):
    return inputs["table"][inputs["ids"]]


def axpy(inputs, **kwargs):
    return 0.75 * inputs["x"] + inputs["y"]


def exclusive_scan(inputs, **kwargs):
    x = inputs["x"].astype(np.int64)
    return np.cumsum(x, axis=-1) - x


def sort(inputs, **kwargs):
    return np.sort(inputs["x"], axis=-1)


def complex_multiply(inputs, **kwargs):
    a, b = inputs["a"], inputs["b"]
    real = a[:, 0] * b[:, 0] - a[:, 1] * b[:, 1]
    return np.stack([real, a[:, 0] * b[:, 1] + a[:, 1] * b[:, 0]], axis=-1)


def masked_fill(inputs, **kwargs):
    return np.where(inputs["mask"], -7.5, inputs["x"])


def double(inputs, **kwargs):
    return 2.0 * inputs["x"]


def quarter(inputs, **kwargs):
    return 0.25 * inputs["x"]


def jump_table(inputs, **kwargs):
    x, op = inputs["x"], inputs["op"]
    cases = [x + 1.0, 2.0 * x, -x, x * x, np.abs(x), np.maximum(x, 0.0) + 3.0, x + 3.0, np.floor(x)]
    return np.select([op == code for code in range(8)], cases, 0.0)


def function_table(inputs, **kwargs):
    x = inputs["x"]
    return np.choose(inputs["which"], [2.0 * x, x - 1.0, x * x])


def halves(inputs, **kwargs):
    x = inputs["x"]
    lanes = 63 - np.arange(64)
    first = x[lanes % x.size]
    second = sum(x[(64 * (k + 1) + lanes) % x.size] for k in range(3))
    return np.concatenate([first, second])


def fourier(inputs, **kwargs):
    y = np.fft.fft(inputs["x"], axis=-1)
    return np.stack([y.real, y.imag], axis=-1)
