"""fp64 references of the Triton kernels that have no counterpart in CUDA."""

import numpy as np


def attention(inputs, scale, **kwargs):
    scores = inputs["q"] @ inputs["k"].T * scale
    p = np.exp(scores - scores.max(axis=-1, keepdims=True))
    return (p / p.sum(axis=-1, keepdims=True)) @ inputs["v"]


def add(inputs, **kwargs):
    return inputs["x"] + inputs["y"]


def copy(inputs, **kwargs):
    return inputs["x"]


def row_max(inputs, **kwargs):
    return inputs["x"].max(axis=-1)


def row_mean(inputs, **kwargs):
    return inputs["x"].mean(axis=-1)


def row_sum(inputs, **kwargs):
    return inputs["x"].sum(axis=-1)


def column_sum(inputs, **kwargs):
    return inputs["x"].sum(axis=0)


def standardize(inputs, **kwargs):
    x = inputs["x"]
    d = x - x.mean(axis=-1, keepdims=True)
    return d / np.sqrt((d * d).mean(axis=-1, keepdims=True) + 1e-5)


def transpose(inputs, **kwargs):
    return inputs["x"].T


def ring(inputs, **kwargs):
    x = inputs["x"]
    return x[inputs["step"].astype(np.int64) * 1000003 % x.size]


def log_sum_exp(inputs, **kwargs):
    x = inputs["x"]
    top = x.max(axis=-1, keepdims=True)
    return top[:, 0] + np.log(np.exp(x - top).sum(axis=-1))


def row_dot(inputs, **kwargs):
    a, b = inputs["a"], inputs["b"]
    if a.dtype.kind == "i":
        a, b = a.astype(np.int64), b.astype(np.int64)
    return (a * b).sum(axis=-1)


def accumulated_dot(inputs, **kwargs):
    return inputs["y"] + (inputs["a"] * inputs["b"]).sum()


def accumulated_sum(inputs, **kwargs):
    return inputs["y"] + inputs["x"].sum()


def total(inputs, **kwargs):
    return inputs["x"].sum(keepdims=True)


def histogram(inputs, **kwargs):
    return inputs["y"] + np.bincount(inputs["x"], minlength=16)


def causal_softmax(inputs, **kwargs):
    scores = inputs["scores"]
    masked = np.where(np.tri(scores.shape[0], dtype=bool), scores, -np.inf)
    e = np.exp(masked - masked.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def quantize(inputs, **kwargs):
    return np.clip(np.floor(inputs["x"] * 20.0 + 0.5), -128, 127)


def matvec(inputs, **kwargs):
    return inputs["a"] @ inputs["x"]


def philox(seed, counter):
    """Return the first word of Philox 4x32-10 for a 64-bit seed and counters below 2**32 (Salmon et al., 2011)."""
    word = np.uint64(0xFFFFFFFF)
    c = [counter.astype(np.uint64), *(np.zeros(counter.shape, np.uint64) for _ in range(3))]
    keys = [np.uint64(seed) & word, np.uint64(seed) >> np.uint64(32)]
    for _ in range(10):
        first, second = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [
            (second >> np.uint64(32)) ^ c[1] ^ keys[0],
            second & word,
            (first >> np.uint64(32)) ^ c[3] ^ keys[1],
            first & word,
        ]
        keys = [(keys[0] + np.uint64(0x9E3779B9)) & word, (keys[1] + np.uint64(0xBB67AE85)) & word]
    return c[0]


def dropout(inputs, seed, **kwargs):
    x = inputs["x"]
    bits = philox(int(seed), np.arange(x.size)).astype(np.uint32).view(np.int32).astype(np.int64)
    uniform = np.where(bits < 0, -bits - 1, bits) * 4.6566127342e-10
    return np.where(uniform > 0.25, x / 0.75, 0.0)


def shift(inputs, **kwargs):
    return np.concatenate([inputs["x"][1:], [0.0]])


def running_sum(inputs, **kwargs):
    return np.cumsum(inputs["x"], axis=-1)


def gather(inputs, **kwargs):
    index = inputs["index"]
    return np.where((index >= 0)[:, None], inputs["table"][index], 0.0)


def rotate(inputs, **kwargs):
    a, b = np.split(inputs["x"], 2, axis=-1)
    c, s = inputs["cosine"], inputs["sine"]
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def cross_entropy(inputs, **kwargs):
    x = inputs["logits"]
    top = x.max(axis=-1, keepdims=True)
    chosen = np.take_along_axis(x, inputs["target"][:, None], axis=-1)[:, 0]
    return top[:, 0] + np.log(np.exp(x - top).sum(axis=-1)) - chosen


def bias(inputs, **kwargs):
    return inputs["x"] + inputs["b"]


def locked_sum(inputs, **kwargs):
    return inputs["y"] + inputs["x"].sum(axis=0)


def convolve(inputs, **kwargs):
    return np.convolve(inputs["x"], inputs["w"][::-1])[1:-1]


def double(inputs, **kwargs):
    return 2.0 * inputs["x"]


def softmax(inputs, **kwargs):
    x = inputs["x"]
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def any_large(inputs, **kwargs):
    return inputs["y"] | int(np.abs(inputs["x"]).max() > 3.0)


def extremes(inputs, **kwargs):
    x = inputs["x"]
    return {"low": np.minimum(inputs["low"], x.min()), "high": np.maximum(inputs["high"], x.max())}


def times_sum(inputs, **kwargs):
    x = inputs["x"]
    return x * x.sum(axis=-1, keepdims=True) + 1.0


def lorentz_parts(inputs, **kwargs):
    x = inputs["x"]
    terms = np.zeros(-(-x.size // 128) * 128)
    terms[: x.size] = 1.0 / (1.0 + x * x)
    return terms.reshape(-1, 128).sum(axis=-1)


def central_difference(inputs, **kwargs):
    x = inputs["x"]
    return np.concatenate([x[1:], x[-1:]]) - np.concatenate([x[:1], x[:-1]])


def ragged_softmax(inputs, **kwargs):
    x = inputs["x"]
    used = np.arange(x.shape[-1]) < inputs["length"][:, None]
    top = np.where(used, x, -np.inf).max(axis=-1, keepdims=True)
    e = np.where(used, np.exp(x - np.where(np.isfinite(top), top, 0.0)), 0.0)
    total = e.sum(axis=-1, keepdims=True)
    return e / np.where(total > 0, total, 1.0)


def backwards(inputs, **kwargs):
    x = inputs["x"]
    y, running = np.zeros_like(x), np.zeros_like(x[0])
    for row in range(len(x) - 1, -1, -1):
        running = running * 0.5 + x[row]
        y[row] = running
    return y


def prefix_sum(inputs, **kwargs):
    return np.cumsum(inputs["x"])


def group_sums(inputs, **kwargs):
    return np.stack([inputs["x"][group::3].sum(axis=0) for group in range(3)])


def double_and_first(inputs, **kwargs):
    return {"y": 2.0 * inputs["x"], "first": inputs["x"][:1]}


def hash_words(inputs, **kwargs):
    h = inputs["x"].astype(np.int32).view(np.uint32)
    h = (h ^ (h >> 16)) * np.uint32(2246822507)
    h = (h ^ (h >> 13)) * np.uint32(3266489909)
    return (h ^ (h >> 16)).view(np.int32)
