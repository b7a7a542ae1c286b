"""fp64 references of products and attention."""

import numpy as np


def matmul(inputs, **kwargs):
    return inputs["a"] @ inputs["b"]


def attention(inputs, **kwargs):
    q, k, v = inputs["q"], inputs["k"], inputs["v"]
    s = q @ k.T / np.sqrt(q.shape[-1])
    p = np.exp(s - s.max(axis=-1, keepdims=True))
    return (p / p.sum(axis=-1, keepdims=True)) @ v


def matvec(inputs, **kwargs):
    return inputs["a"] @ inputs["x"]


def sparse_rows(inputs, **kwargs):
    columns = inputs["columns"]
    used = np.cumsum(columns < 0, axis=-1) == 0
    return np.where(used, inputs["values"] * inputs["x"][columns], 0.0).sum(axis=-1)


def gram(inputs, **kwargs):
    return inputs["a"] @ inputs["a"].T


def head_scores(inputs, **kwargs):
    return inputs["q"] @ inputs["keys"].T / np.sqrt(48.0)
