"""fp64 references of the Triton kernels that are parts of models."""

import numpy as np


def row_argmax(inputs, **kwargs):
    return inputs["x"].argmax(axis=-1)


def top_two(inputs, **kwargs):
    x = inputs["x"]
    index = np.argsort(-x, axis=-1, kind="stable")[:, :2]
    two = np.take_along_axis(x, index, axis=-1)
    p = np.exp(two - two[:, :1])
    return {"weight": p / p.sum(axis=-1, keepdims=True), "index": index}


def max_pool(inputs, **kwargs):
    x = inputs["x"]
    padded = np.pad(x, ((0, 0), (1, 2)), constant_values=-np.inf)
    return np.stack([padded[:, k : k + x.shape[1]] for k in range(3)]).max(axis=0)[:, ::2]


def recurrence(inputs, **kwargs):
    states = [np.zeros(inputs["x"].shape[1])]
    for a, x in zip(inputs["a"], inputs["x"], strict=True):
        states.append(a * states[-1] + x)
    return np.stack(states[1:])


def mean_and_variance(inputs, **kwargs):
    x = inputs["x"]
    mean = x.mean(axis=-1, keepdims=True)
    return {"mean": mean[:, 0], "variance": ((x - mean) ** 2).mean(axis=-1)}


def paged_decode(inputs, scale, **kwargs):
    rows = []
    for q, pages, length in zip(inputs["q"], inputs["table"], inputs["lengths"], strict=True):
        keys = inputs["keys"][pages].reshape(-1, q.size)[:length]
        values = inputs["values"][pages].reshape(-1, q.size)[:length]
        scores = (keys * q).sum(axis=-1) * scale
        p = np.exp(scores - scores.max())
        rows.append((p[:, None] * values).sum(axis=0) / p.sum())
    return np.stack(rows)


def masked_softmax(inputs, **kwargs):
    kept = inputs["keep"] != 0
    largest = np.where(kept, inputs["x"], -np.inf).max(axis=-1, keepdims=True)
    largest = np.where(np.isinf(largest), 0.0, largest)
    p = np.where(kept, np.exp(np.where(kept, inputs["x"], 0.0) - largest), 0.0)
    total = p.sum(axis=-1, keepdims=True)
    return p / np.where(total == 0, 1.0, total)


def group_norm(inputs, groups, eps, **kwargs):
    x = inputs["x"]
    v = x.reshape(x.shape[0], groups, -1)
    centred = v - v.mean(axis=-1, keepdims=True)
    v = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + eps)
    return v.reshape(x.shape) * inputs["w"][:, None] + inputs["b"][:, None]


def embedding_gradient(inputs, **kwargs):
    y = inputs["y"].copy()
    np.add.at(y, inputs["index"], inputs["g"])
    return y


def int4_matrix(inputs, **kwargs):
    k = np.arange(inputs["x"].shape[1])
    level = ((inputs["packed"][k // 8] >> (4 * (k % 8))[:, None]) & 15) - 8
    return inputs["x"] @ (level * inputs["scales"][k // 16])
