"""fp64 references of the kernels that reduce over rows."""

import numpy as np


def softmax(inputs, **kwargs):
    x = inputs["x"]
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def layernorm(inputs, **kwargs):
    x = inputs["x"]
    mean = x.mean(axis=-1, keepdims=True)
    return (x - mean) / np.sqrt(((x - mean) ** 2).mean(axis=-1, keepdims=True) + 1e-5)


def rmsnorm(inputs, **kwargs):
    x = inputs["x"]
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + 1e-5)


def l2norm(inputs, **kwargs):
    x = inputs["x"]
    return x / np.sqrt((x * x).sum(axis=-1, keepdims=True) + 1e-12)


def variance(inputs, **kwargs):
    return inputs["x"].var(axis=-1)


def causal_softmax(inputs, **kwargs):
    scores = inputs["scores"]
    masked = np.where(np.tri(scores.shape[0], dtype=bool), scores, -np.inf)
    e = np.exp(masked - masked.max(axis=-1, keepdims=True))
    return e / e.sum(axis=-1, keepdims=True)


def log_softmax(inputs, **kwargs):
    x = inputs["x"]
    shifted = x - x.max(axis=-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True))


def cross_entropy(inputs, **kwargs):
    return -np.take_along_axis(log_softmax({"x": inputs["logits"]}), inputs["target"][:, None], axis=-1)[:, 0]


def rope(inputs, **kwargs):
    a, b = np.split(inputs["x"], 2, axis=-1)
    c, s = inputs["cosine"], inputs["sine"]
    return np.concatenate([a * c - b * s, b * c + a * s], axis=-1)


def batchnorm(inputs, **kwargs):
    x = inputs["x"]
    mean = x.mean(axis=(0, 2), keepdims=True)
    scale = inputs["gamma"][:, None] / np.sqrt(((x - mean) ** 2).mean(axis=(0, 2), keepdims=True) + 1e-5)
    return (x - mean) * scale + inputs["beta"][:, None]


def logsumexp(inputs, **kwargs):
    x = inputs["x"]
    top = x.max(axis=-1, keepdims=True)
    return (top + np.log(np.exp(x - top).sum(axis=-1, keepdims=True)))[:, 0]


def column_means(inputs, **kwargs):
    return inputs["x"].mean(axis=0)


def running_mean(inputs, **kwargs):
    x = inputs["x"]
    return np.cumsum(x) / np.arange(1, x.size + 1)


def swiglu(inputs, **kwargs):
    gate, up = np.split(inputs["x"], 2, axis=-1)
    e = np.exp(-np.abs(gate))
    return gate * np.where(gate >= 0, 1.0, e) / (1.0 + e) * up


def norms(inputs, **kwargs):
    return np.sqrt((inputs["x"] ** 2).sum(axis=-1))
